package host_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// invented maps a word that is no name here to the usual term, for which somebody who knows nostr,
// git and databases would search.
var invented = map[string]string{
	"absence":  "missing",
	"afresh":   "newInstance, Reset",
	"alike":    "tied, equal",
	"arrive":   "deliver, receive",
	"aside":    "WithoutRecording",
	"beat":     "heartbeat",
	"bring":    "reconcile, fetch",
	"careful":  "DefaultBackoff",
	"crowd":    "queryCost, full",
	"entrance": "listeners",
	"era":      "generation",
	"forgive":  "clear",
	"fruit":    "result",
	"greet":    "advertise, sendAuthChallenge",
	"handed":   "published",
	"hangup":   "close",
	"happened": "onEvent",
	"hear":     "onChange, receive",
	"historic": "backfill",
	"hurry":    "FetchNow",
	"inbox":    "queue",
	"kick":     "notify, wake",
	"land":     "apply",
	"landed":   "done, applied",
	"leave":    "release, remove",
	"lineage":  "family",
	"lineup":   "chain",
	"look":     "inspect, probe, check",
	"mark":     "position",
	"news":     "change, newEvents",
	"ours":     "hosted, local",
	"outdate":  "invalidate, exclude",
	"overhear": "runShadow",
	"people":   "users, profiles",
	"pile":     "events, buffer",
	"poke":     "wake",
	"recall":   "Get, restore",
	"remember": "Put, record, add",
	"resting":  "breakerOpen",
	"shelf":    "history, eventStore",
	"sift":     "filter",
	"skeleton": "template",
	"smith":    "gitFixture",
	"speak":    "write",
	"spend":    "charge, reserve",
	"strike":   "violation",
	"tally":    "stats, counter",
	"tell":     "notify, report",
	"told":     "notified, recorded",
	"touched":  "changed",
	"travels":  "inFlight",
	"turns":    "queue, slots, ready",
	"unsure":   "maybeTruncated",
	"voice":    "progress, opinion",
	"witness":  "observer",
}

// TestNames keeps the names of the server and its tools in the field's own terms. Parameters and
// results count as names do.
func TestNames(t *testing.T) {
	eachFile(t, []string{"host", "cmd", "internal"}, func(files *token.FileSet, parsed *ast.File) {
		check := func(id *ast.Ident) {
			if instead, is := invented[strings.ToLower(id.Name)]; is {
				t.Errorf("%s: %s is no name here; %s may be", files.Position(id.Pos()), id.Name, instead)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				check(n.Name)
			case *ast.TypeSpec:
				check(n.Name)
			case *ast.StructType:
				checkFields(n.Fields, check)
			case *ast.InterfaceType:
				checkFields(n.Methods, check)
			case *ast.FuncType:
				checkFields(n.Params, check)
				checkFields(n.Results, check)
			}
			return true
		})
	})
}

// TestDocComments checks that the doc comment of a type, function, variable or constant begins
// with its name, exported or not. A comment that a rename or a move has left over another
// declaration fails here. Tests are free to begin with what they show.
func TestDocComments(t *testing.T) {
	eachFile(t, []string{"host", "cmd", "internal", "plugins", "sdk"}, func(files *token.FileSet, parsed *ast.File) {
		check := func(doc *ast.CommentGroup, name string) {
			if doc == nil || startsWithName(doc.Text(), name) {
				return
			}
			first, _, _ := strings.Cut(doc.Text(), "\n")
			t.Errorf("%s: the comment of %s does not begin with its name: %q", files.Position(doc.Pos()), name, first)
		}
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				check(d.Doc, d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					doc := d.Doc
					if d.Lparen.IsValid() {
						doc = nil // it is of all of them
					}
					switch s := spec.(type) {
					case *ast.TypeSpec:
						check(cmp.Or(s.Doc, doc), s.Name.Name)
					case *ast.ValueSpec:
						if len(s.Names) == 1 {
							check(doc, s.Names[0].Name)
						}
					}
				}
			}
		}
	})
}

// startsWithName reports whether a comment begins with the name, after an article if there is one.
func startsWithName(comment, name string) bool {
	words := strings.Fields(comment)
	if len(words) > 1 && (words[0] == "A" || words[0] == "An" || words[0] == "The") {
		words = words[1:]
	}
	if len(words) == 0 {
		return true // a directive
	}
	rest, ok := strings.CutPrefix(words[0], name)
	return ok && strings.Trim(rest, "'s.,:;") == ""
}

// eachFile calls f with each file of Go below the folders, other than tests and test data.
func eachFile(t *testing.T, tops []string, f func(*token.FileSet, *ast.File)) {
	t.Helper()
	for _, top := range tops {
		err := filepath.WalkDir(filepath.Join("..", top), func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return nil
			}
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			f(files, parsed)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkFields checks the names of a list of fields, parameters or results, if there is one.
func checkFields(list *ast.FieldList, check func(*ast.Ident)) {
	if list == nil {
		return
	}
	for _, f := range list.List {
		for _, id := range f.Names {
			check(id)
		}
	}
}
