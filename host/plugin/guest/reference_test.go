package guest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"talon/sdk/abi"
)

// referenceRow is a line of a table that begins with a name and a type.
var referenceRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| `\\(([^)]*)\\)(?: -> (\\w+))?` \\|")

// TestReferenceOfHostFunctions: docs/reference-abi.md has every function that a module
// can import, with its type, and no other.
func TestReferenceOfHostFunctions(t *testing.T) {
	page := referencePage(t)
	_, section, _ := strings.Cut(page, "\n## Host functions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, row := range referenceRow.FindAllStringSubmatch(section, -1) {
		name := row[1]
		f, ok := capabilities[name]
		if !ok || listed[name] {
			t.Errorf("the page has %s; there is no such function, or it is there twice", name)
			continue
		}
		listed[name] = true
		var params, results []api.ValueType
		for param := range strings.SplitSeq(row[2], ",") {
			params = append(params, valueType(param))
		}
		if row[3] != "" {
			results = append(results, valueType("result "+row[3]))
		}
		if !slices.Equal(params, f.params) || !slices.Equal(results, f.results) {
			t.Errorf("%s is (%s) -> %q on the page; the host has another type", name, row[2], row[3])
		}
	}
	for name := range capabilities {
		if !listed[name] {
			t.Errorf("the page lacks %s", name)
		}
	}
}

// TestLanguagesImport: a module in any language can import every function.
func TestLanguagesImport(t *testing.T) {
	for _, files := range []string{"policy/guest_wasip1.go internal/guest/guest_wasip1.go", "c/talon.h", "rust/src/host.rs", "assemblyscript/assembly/imports.ts"} {
		var text []byte
		for file := range strings.FieldsSeq(files) {
			more, err := os.ReadFile("../../../sdk/" + file)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, more...)
		}
		for name := range capabilities {
			if !regexp.MustCompile("[\"' ]" + regexp.QuoteMeta(name) + "[\"'\n]").Match(text) {
				t.Errorf("sdk/%s: %s is not imported", files, name)
			}
		}
	}
}

// valueType reads "name" or "name type".
func valueType(param string) api.ValueType {
	switch words := strings.Fields(param); {
	case len(words) == 2 && words[1] == "i64":
		return i64
	case len(words) == 2 && words[1] == "f64":
		return f64
	}
	return i32
}

// TestReferenceOfExports: the page has what the host calls.
func TestReferenceOfExports(t *testing.T) {
	page := referencePage(t)
	exports := []string{abi.ExportMarker, abi.ExportMemory, abi.ExportBuffer, abi.ExportConfigure, abi.ExportInitialize}
	for f := range functionNames {
		exports = append(exports, Func(f).export())
	}
	for _, name := range exports {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("the page lacks the export %s", name)
		}
	}
}

func referencePage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/reference-abi.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}
