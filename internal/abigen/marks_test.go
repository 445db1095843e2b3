package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMarks compares the page of marks with talon.proto, and with what the generator asks for.
func TestMarks(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var described []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(read("MARKS.md"), -1) {
		described = append(described, word(m[1]))
	}
	used := map[string]bool{}
	for line := range strings.Lines(read("../../sdk/abi/talon.proto")) {
		if mark, ok := strings.CutPrefix(strings.TrimSpace(line), "//@ "); ok {
			used[word(mark)] = true
		}
	}
	for mark := range used {
		if !slices.Contains(described, mark) {
			t.Errorf("talon.proto has the mark %q, and the page does not", mark)
		}
	}
	for _, mark := range described {
		if !used[mark] {
			t.Errorf("the page has the mark %q, and talon.proto does not", mark)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		for _, m := range regexp.MustCompile(`Marks\.(?:Has|Get)\("(\w+)", "(\w+)"\)`).FindAllStringSubmatch(read(name), -1) {
			if mark := m[1] + " " + m[2]; !slices.Contains(described, mark) {
				t.Errorf("%s asks for the mark %q, and the page does not have it", name, mark)
			}
		}
	}
}

// word is a mark without what varies in it: the generator and the first word, which for types of Go
// is only how they begin.
func word(mark string) string {
	generator, rest, _ := strings.Cut(mark, " ")
	switch {
	case generator == "file":
		return generator
	case strings.HasPrefix(rest, "[]"):
		return generator + " []"
	case strings.HasPrefix(rest, "["):
		return generator + " ["
	}
	first, _, _ := strings.Cut(rest, " ")
	return generator + " " + first
}
