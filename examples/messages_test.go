package examples

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestABIPage: docs/reference-abi.md names every message that is sent by itself, and
// every input of a strategy; a message that it names is in the schema.
func TestABIPage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference-abi.md")
	if err != nil {
		t.Fatal(err)
	}
	schema, err := os.ReadFile("../sdk/abi/talon.proto")
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^message (\w+) \{`).FindAllStringSubmatch(string(schema), -1) {
		messages[m[1]] = true
	}
	sent := regexp.MustCompile("`([A-Z][A-Za-z]*(?:Request|Answer|Actions|Verdict|Config|Configured|Event|EventList|Filter))`")
	named := map[string]bool{}
	for _, m := range sent.FindAllStringSubmatch(string(page), -1) {
		named[m[1]] = true
		if !messages[m[1]] {
			t.Errorf("the page names %s; there is no such message", m[1])
		}
	}
	for m := range messages {
		if !named[m] && (strings.HasSuffix(m, "Request") || strings.HasSuffix(m, "Answer") || m == "StepActions") {
			t.Errorf("the page does not name %s", m)
		}
	}
	_, inputs, _ := strings.Cut(string(schema), "message StepRequest {")
	inputs, _, _ = strings.Cut(inputs, "}")
	for _, m := range regexp.MustCompile(`(?m)^  [A-Z]\w+ (\w+) =`).FindAllStringSubmatch(inputs, -1) {
		if !strings.Contains(string(page), "\n| `"+m[1]+"` |") {
			t.Errorf("the page lacks the input %s", m[1])
		}
	}
}
