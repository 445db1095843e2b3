package examples

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestMessagesPage: the page has every message, field and number of the schema, as
// the schema has it.
func TestMessagesPage(t *testing.T) {
	schema, err := os.ReadFile("../sdk/abi/talon.proto")
	if err != nil {
		t.Fatal(err)
	}
	const page = "../docs/reference-messages.md"
	want := messagesPage(t, string(schema))
	// Package strategytest has the flag, which is for stories, too.
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	has := strings.Split(string(got), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(has) || has[i] != line {
			t.Fatalf("docs/reference-messages.md:%d is not what talon.proto says:\n%s\nrun: go test ./examples -run MessagesPage -rewrite", i+1, line)
		}
	}
	if string(got) != want {
		t.Fatal("docs/reference-messages.md has more than talon.proto says")
	}
}

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

// messagesPage makes a page of a schema, as far as talon.proto goes: a field to a
// line, what is said of it behind it or above.
func messagesPage(t *testing.T, schema string) string {
	var page, index strings.Builder
	known := map[string]bool{}
	for line := range strings.Lines(schema) {
		if words := strings.Fields(line); len(words) == 3 && (words[0] == "message" || words[0] == "enum") {
			known[words[1]] = true
			fmt.Fprintf(&index, "[%s](#%s)\n", words[1], strings.ToLower(words[1]))
		}
	}
	var said []string
	inside := false
	for line := range strings.Lines(schema) {
		line, note, commented := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(strings.NewReplacer(";", " ", "=", " ", "{", " ").Replace(line))
		note = strings.TrimSpace(note)
		switch {
		case len(words) == 0:
			if !commented {
				said = nil
			} else if note != "" {
				said = append(said, note)
			}
			continue
		case words[0] == "message" || words[0] == "enum":
			inside = true
			fmt.Fprintf(&page, "\n## %s\n\n%s\n\n", words[1], strings.Join(said, "\n"))
			if words[0] == "message" {
				page.WriteString("| | field | type | |\n|---|---|---|---|\n")
			} else {
				page.WriteString("| | name | |\n|---|---|---|\n")
			}
		case words[0] == "}":
			inside = false
		case inside:
			text := strings.ReplaceAll(strings.TrimSpace(strings.Join(append(said, note), " ")), "|", `\|`)
			n := len(words)
			if n < 2 {
				t.Fatalf("talon.proto: %q is no field", line)
			}
			if n == 2 {
				fmt.Fprintf(&page, "| %s | `%s` | %s |\n", words[1], words[0], text)
				break
			}
			kind := words[n-3]
			if known[kind] {
				kind = fmt.Sprintf("[%s](#%s)", kind, strings.ToLower(kind))
			}
			kind = strings.Join(append(words[:n-3:n-3], kind), " ")
			fmt.Fprintf(&page, "| %s | `%s` | %s | %s |\n", words[n-1], words[n-2], kind, text)
		}
		said = nil
	}
	return `# Reference: the messages of the ABI

Every message that crosses the boundary between Talon and a module: protobuf (proto3), package ` + "`talon.v1`" + `. What a module is, and when
which message is sent, is in [the ABI](reference-abi.md). This page is made from [talon.proto](../sdk/abi/talon.proto), by
` + "`go test ./examples -run MessagesPage -rewrite`" + `; a test holds the two against each other.

A field is never renumbered or given another type, a removed number is reserved. Skip fields that you do not know; expect that any field
is absent.

` + index.String() + page.String()
}
