package main

import (
	"os"
	"path/filepath"
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
				t.Errorf("%s:%d is not what talon.proto says:\n%s\nrun: go generate ./sdk/abi", name, i+1, line)
				break
			}
		}
		if len(has) > strings.Count(want, "\n")+1 {
			t.Errorf("%s has more than talon.proto says; run: go generate ./sdk/abi", name)
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
