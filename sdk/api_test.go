package sdk

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.golden")

// TestExportedAPI holds what the packages of the SDK export against testdata/api.golden:
// authors build modules against it.
func TestExportedAPI(t *testing.T) {
	var got strings.Builder
	err := fs.WalkDir(os.DirFS("."), ".", func(dir string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case d.Name() == "internal" || d.Name() == "testdata" || d.Name() == "node_modules":
			return fs.SkipDir
		}
		declarations := make(map[string]bool)
		for _, target := range []string{"linux", "wasip1"} {
			if err := exported(dir, target, declarations); err != nil {
				return err
			}
		}
		if len(declarations) > 0 {
			fmt.Fprintf(&got, "package %s\n\n%s\n\n", path.Join(Path(), dir), strings.Join(slices.Sorted(maps.Keys(declarations)), "\n"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join("testdata", "api.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() == string(golden) {
		return
	}
	for line := range changes(string(golden), got.String()) {
		t.Error(line)
	}
	t.Error("the SDK exports something else than " + file + " says. A line that is gone or changed breaks modules; " +
		"if all that changes is meant to: go test talon/sdk -update")
}

// exported adds what a package exports when it is built for an operating system: each
// declaration as its source has it, without comments and bodies.
func exported(dir, system string, declarations map[string]bool) error {
	context := build.Default
	context.GOOS = system
	if system == "wasip1" {
		context.GOARCH = "wasm"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	for _, file := range files {
		built, err := context.MatchFile(filepath.Split(file))
		if err != nil {
			return err
		}
		if !built || strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.FileExports(parsed)
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
			}
			var text bytes.Buffer
			if err := (&printer.Config{Mode: printer.RawFormat, Tabwidth: 4}).Fprint(&text, set, declaration); err != nil {
				return err
			}
			declarations[lines(text.String())] = true
		}
	}
	return nil
}

// lines are those of a text that say something, so that a comment or a blank line
// between fields changes nothing.
func lines(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, " \t\n"); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// changes yields the lines that one text has more often than the other.
func changes(before, after string) func(func(string) bool) {
	return func(yield func(string) bool) {
		count := make(map[string]int)
		for line := range strings.Lines(before) {
			count[line]--
		}
		for line := range strings.Lines(after) {
			count[line]++
		}
		for _, line := range slices.Sorted(maps.Keys(count)) {
			sign := map[bool]string{true: "new:  ", false: "gone: "}[count[line] > 0]
			if count[line] != 0 && !yield(sign+strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	}
}
