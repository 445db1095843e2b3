package examples

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
