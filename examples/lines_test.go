package examples

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLinesOfPages holds prose to 120 columns. Code and tables are as wide as they are,
// and pages that a program writes are its own.
func TestLinesOfPages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../host/*/DESIGN.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	if len(pages) < 30 {
		t.Fatalf("only %d pages are found", len(pages))
	}
	written := []string{"reference-messages.md", "reference-relay-profiles.md", "reference-lab-results.md", "reference-lab-scenarios.md", "which-strategy.md"}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(written, filepath.Base(page)) {
			continue
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			prose := !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ")
			if n := utf8.RuneCountInString(line); prose && n > 120 && strings.Contains(strings.TrimLeft(line[:120], " -"), " ") {
				t.Errorf("%s:%d has %d columns", page, i+1, n)
			}
		}
	}
}
