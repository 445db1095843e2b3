package examples

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced  = regexp.MustCompile("(?s)\n```.*?\n```")
)

// TestLinks: every link of the documentation leads to a file that is there, and to a
// heading that the file has.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 15 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			file, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, found[1])
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s links to %s; there is no such heading", page, found[1])
			}
		}
	}
}

// TestIndex: docs/README.md names every page.
func TestIndex(t *testing.T) {
	index, err := os.ReadFile("../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/README.md lacks %s", name)
		}
	}
}

func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		if slug(h[1]) == anchor {
			return true
		}
	}
	return false
}

// slug is the anchor of a heading, as GitHub and GitLab make it.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestLinesOfPages holds prose to 120 columns. Code and tables are as wide as they are,
// and pages that a program writes are its own.
func TestLinesOfPages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../host/*/DESIGN.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 30 {
		t.Fatalf("only %d pages are found", len(pages))
	}
	written := []string{"reference-messages.md", "reference-relay-profiles.md", "reference-lab-results.md", "reference-lab-scenarios.md", "which-strategy.md"}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(written, filepath.Base(page)) {
			continue
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			prose := !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ")
			if n := utf8.RuneCountInString(line); prose && n > 120 && strings.Contains(strings.TrimLeft(line[:120], " -"), " ") {
				t.Errorf("%s:%d has %d columns", page, i+1, n)
			}
		}
	}
}

// TestABIPage: docs/reference-abi.md names every message that is sent by itself, and
// every input of a strategy; a message that it names is in the schema.
func TestABIPage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference-abi.md")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile("../sdk/abi/talon.proto")
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^message (\w+) \{`).FindAllStringSubmatch(string(schema), -1) {
		messages[m[1]] = true
	}
	sent := regexp.MustCompile("`([A-Z][A-Za-z]*(?:Request|Answer|Actions|Verdict|Config|Configured|Event|EventList|Filter))`")
	named := map[string]bool{}
	for _, m := range sent.FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
		if !messages[m[1]] {
			t.Errorf("the page names %s; there is no such message", m[1])
		}
	}
	for m := range messages {
		if !named[m] && (strings.HasSuffix(m, "Request") || strings.HasSuffix(m, "Answer") || m == "StepActions") {
			t.Errorf("the page does not name %s", m)
		}
	}
	_, inputs, _ := strings.Cut(string(schema), "message StepRequest {")
	inputs, _, _ = strings.Cut(inputs, "}")
	for _, m := range regexp.MustCompile(`(?m)^  [A-Z]\w+ (\w+) =`).FindAllStringSubmatch(inputs, -1) {
		if !strings.Contains(string(page), "\n| `"+m[1]+"` |") {
			t.Errorf("the page lacks the input %s", m[1])
		}
	}
}

// TestWords keeps identifiers and comments to the terms of the field: what a reader knows
// and searches for.
func TestWords(t *testing.T) {
	comment := regexp.MustCompile(`\b(is|are|was|were) told\b|\banew\b[^\]]|\bso many\b`)
	name := regexp.MustCompile(`^(most|least)([A-Z]|$)|(Most|Least)$`) // a limit is a max or a min
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != ".."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_gen.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			for _, c := range group.List {
				if found := comment.FindString(c.Text); found != "" {
					t.Errorf("%s: a comment says %q", set.Position(c.Pos()), found)
				}
			}
		}
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		declared := func(list ...*ast.Ident) {
			for _, id := range list {
				if name.MatchString(id.Name) {
					t.Errorf("%s: %s is a limit: maxX or minX", set.Position(id.Pos()), id.Name)
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				declared(n.Name)
			case *ast.TypeSpec:
				declared(n.Name)
			case *ast.Field:
				declared(n.Names...)
			case *ast.GenDecl:
				for _, spec := range n.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						declared(v.Names...)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 500 {
		t.Fatalf("%d files are found: %v", files, err)
	}
}
