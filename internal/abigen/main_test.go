package main

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"talon/internal/abigen/schema"
)

// TestCurrent holds the files that are checked in against talon.proto.
func TestCurrent(t *testing.T) {
	const root = "../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		has := strings.Split(string(got), "\n")
		for i, line := range strings.Split(want, "\n") {
			if i >= len(has) || has[i] != line {
				t.Errorf("%s:%d is not what talon.proto says:\n%s\nrun: go generate ./internal/abigen", name, i+1, line)
				break
			}
		}
		if len(has) > strings.Count(want, "\n")+1 {
			t.Errorf("%s has more than talon.proto says; run: go generate ./internal/abigen", name)
		}
	}
}

// TestSchemaRefuses: a line that the generator would read in another way than a
// compiler of protobuf does is an error.
func TestSchemaRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"string a = 1;":                                   "outside",
		"message A {\nmessage B {\n}\n}":                  "nesting",
		"message A {\nstring a = 1;\nbool b = 1;\n}":      "taken",
		"message A {\nstring a = 1;\nbool a = 2;\n}":      "taken",
		"message A {\nstring a = 0;\n}":                   "a field to a line",
		"message A {\nmap<string, string> a = 1;\n}":      "a field to a line",
		"message A {\nstring a = 1; string b = 2;\n}":     "a field to a line",
		"message A {\nstring a = 1 [deprecated = true];}": "a field to a line",
		"message A {\nfloat a = 1;\n}":                    "there is no type float",
		"message A {\nB a = 1;\n}":                        "there is no type B",
		"message A {\n}\nenum A {\n}":                     "a name of its own",
	} {
		if _, err := schema.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want one that says %q", text, err, want)
		}
	}
}

// TestAnyMessageCanHaveAnotherField adds a field of each type to each message whose Go
// is generated: package abi compiles with it, so that one line of the schema is enough.
func TestAnyMessageCanHaveAnotherField(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "sdk/abi/talon.proto"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := schema.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	// A test that was built with -trimpath does not know where the standard library is.
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	build.Default.GOROOT = strings.TrimSpace(string(goroot))
	set := token.NewFileSet()
	standard := importer.ForCompiler(set, "source", nil)
	for _, typ := range []string{"string", "int64", "uint32", "bool", "double", "Origin"} {
		more := string(text)
		for _, m := range f.Types {
			// The struct of a ref update comes from the callers: a constraint of the request says
			// so. HistoricDone has 15 fields. One more needs keys of two bytes.
			full := slices.ContainsFunc(m.Fields, func(f *schema.Field) bool { return f.Number == 15 })
			if full && m.Name != "HistoricDone" {
				t.Fatalf("%s has no number left", m.Name)
			}
			if !full && !m.Enum && m.Name != "RefUpdate" && !m.Marks.Has("go", "hand") && !m.Marks.Has("go", "inputs") && !strings.HasPrefix(strings.Join(m.Marks["go"], " "), "actions") {
				before := "\nmessage " + m.Name + " {\n"
				more = strings.Replace(more, before, before+"  "+typ+" another = 15; // at most 9 bytes\n", 1)
			}
		}
		files, err := generateFrom(more, root)
		if err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(root, "sdk/abi/*.go"))
		if err != nil {
			t.Fatal(err)
		}
		var parsed []*ast.File
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			var source any // nil: what is in the file
			if generated, ok := files["sdk/abi/"+filepath.Base(name)]; ok {
				if source = generated; !strings.Contains(generated, "Another") {
					t.Errorf("%s: a field of type %s is not there", name, typ)
				}
			}
			file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		failed := func(err error) { t.Errorf("with fields of type %s: %v", typ, err) }
		_, _ = (&types.Config{Importer: standard, Error: failed}).Check("talon/sdk/abi", set, parsed, nil)
	}
}
