package host_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecture holds docs/ARCHITECTURE.md against the code: each function that it
// names after a package is there, and each file that it names.
func TestArchitecture(t *testing.T) {
	text, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	functions := regexp.MustCompile("`((?:host|sdk)[a-z/]*)` +`([A-Za-z]+(?:\\.[A-Za-z]+)?)`").FindAllStringSubmatch(string(text), -1)
	if len(functions) < 40 {
		t.Fatalf("the page names %d functions after their packages; is its form another?", len(functions))
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
	for _, f := range regexp.MustCompile("`((?:host|sdk|plugins|cmd)/[a-z_./-]+)`").FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join("..", f[1])); err != nil {
			t.Error(err)
		}
	}
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
