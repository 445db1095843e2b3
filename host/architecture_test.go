package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecture compares docs/ARCHITECTURE.md with the code. The page names every
// package, and each package, function and file that it names exists.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := regexp.MustCompile("`((?:host|sdk)[a-z/]*)`\\s+`([A-Za-z]+(?:\\.[A-Za-z]+)?)`").FindAllStringSubmatch(string(text), -1)
	if len(functions) < 40 {
		t.Fatalf("the page names %d functions after their packages; has its form changed?", len(functions))
	}
	declared := make(map[string]map[string]bool)
	for _, f := range functions {
		pkg, name := f[1], f[2]
		if declared[pkg] == nil {
			declared[pkg] = functionsOf(t, filepath.Join("..", pkg))
		}
		if !declared[pkg][name] {
			t.Errorf("%s has no %s", pkg, name)
		}
	}
	for _, f := range regexp.MustCompile("`([a-z_]+\\.go)`").FindAllStringSubmatch(string(text), -1) {
		if found, err := exec.Command("git", "ls-files", "..").Output(); err != nil {
			t.Fatal(err)
		} else if !strings.Contains(string(found), "/"+f[1]+"\n") {
			t.Errorf("there is no %s", f[1])
		}
	}
	for _, pkg := range packages(t) {
		if !strings.Contains(string(text), "`"+pkg+"`") {
			t.Errorf("docs/ARCHITECTURE.md does not name the package %s: add it to the tables under The packages", pkg)
		}
	}
	for _, f := range regexp.MustCompile("`((?:host|sdk|plugins|cmd|internal)/[a-z_./-]+)`").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("..", f[1])); err != nil {
			t.Error(err)
		}
	}
}

// packages returns the folders of the repository that hold a package. Folders of modules,
// and those for tests, are left out.
func packages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, top := range []string{"host", "sdk", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(file string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
				return fs.SkipDir
			case d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
				return nil
			}
			if pkg := filepath.ToSlash(filepath.Dir(file))[len("../"):]; !slices.Contains(found, pkg) {
				found = append(found, pkg)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) < 60 {
		t.Fatalf("found %d packages only: %q", len(found), found)
	}
	return found
}

// functionsOf returns the functions of a package, methods with the name of their type.
func functionsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := f.Name.Name
			if f.Recv != nil {
				of := f.Recv.List[0].Type
				if p, ok := of.(*ast.StarExpr); ok {
					of = p.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name = id.Name + "." + name
				}
			}
			found[name] = true
		}
	}
	return found
}
