package grasp

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A guest pays for what a package imports: net/url alone brings 0.9 MB, by way of
// fmt, os and reflect.
func TestImportsAreSmall(t *testing.T) {
	small := []string{"errors", "slices", "strconv", "strings", "unicode", "unicode/utf8", "talon/sdk/nip19"}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if imported, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(small, imported) {
				t.Errorf("%s imports %s", file, imported)
			}
		}
	}
}
