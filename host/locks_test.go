package host_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// locksAcrossCalls are the folders in which one function takes a lock and another releases it,
// with the reason.
var locksAcrossCalls = map[string]string{
	"../host/store":          "a transaction holds its lock from Begin to its end",
	"../host/store/postgres": "a transaction holds its lock from Begin to its end",
	"../host/cluster":        "the lock is one of the database, over all nodes",
	"../host/daemon":         "the lock is one of the database, over all nodes",
	"../host/gitrepo":        "the lock is one of a repository, over all nodes",
}

// TestLocksAreReleasedByTheirTakers: no function releases a lock that its caller took. A reader
// of the caller could not see that the fields which the lock guards change during the call.
func TestLocksAreReleasedByTheirTakers(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		if locksAcrossCalls[filepath.ToSlash(filepath.Dir(path))] != "" {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			for _, lock := range releasedFirst(f) {
				t.Errorf("%s: %s releases %s, which its caller took: release it in the function that takes it", fset.Position(f.Pos()), f.Name.Name, lock)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// releasedFirst returns the locks that a function releases before it takes them.
func releasedFirst(f *ast.FuncDecl) (list []string) {
	taken := map[string]bool{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) > 0 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		var text bytes.Buffer
		_ = printer.Fprint(&text, token.NewFileSet(), sel.X)
		lock := text.String()
		switch sel.Sel.Name {
		case "Lock", "RLock", "TryLock":
			taken[lock] = true
		case "Unlock", "RUnlock":
			if !taken[lock] {
				taken[lock] = true
				list = append(list, lock)
			}
		}
		return true
	})
	return list
}

// TestReleasedFirst finds a function that releases the lock of its caller.
func TestReleasedFirst(t *testing.T) {
	for text, want := range map[string]string{
		`func f() { mu.Lock(); defer mu.Unlock() }`:                               "",
		`func f() { mu.Unlock(); defer mu.Lock() }`:                               "mu",
		`func f() { a.mu.Lock(); b.mu.Unlock(); a.mu.Unlock() }`:                  "b.mu",
		`func f() { s.mu.Lock(); go func() { s.mu.Unlock(); s.mu.Lock() }() }`:    "",
		`func f() { if x { h.mu.RUnlock(); return }; h.mu.RLock(); wait.Lock() }`: "h.mu",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(releasedFirst(file.Decls[0].(*ast.FuncDecl)), " "); got != want {
			t.Errorf("%s: released %q, want %q", text, got, want)
		}
	}
}
