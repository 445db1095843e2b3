package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// invented says which words are no names here, and what stands in their place: the term
// that somebody who knows nostr, git and databases searches for.
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

// TestNames keeps the names of the server and its tools in the field's own terms.
func TestNames(t *testing.T) {
	for _, top := range []string{"host", "cmd", "internal"} {
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
			parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
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
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func checkFields(list *ast.FieldList, check func(*ast.Ident)) {
	for _, f := range list.List {
		for _, id := range f.Names {
			check(id)
		}
	}
}
