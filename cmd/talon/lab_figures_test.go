package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"talon/host/plugin/plugintest"
)

// labSection is a table of docs/which-strategy.md, with the command that made it.
var labSection = regexp.MustCompile(`(?m)^    (talon lab (?:run|sweep) (\w+) --strategy (\S+) --throttle (\S+)(?: --set \S+)? --seeds \d+)\n\n(\|[^\n]*\n)+`)

// TestGuidesFigures makes the tables of a page again by the commands above them, and compares them.
// That is the first table with TALON_TEST_GUIDES, and all of them with TALON_TEST_DEVNET.
func TestGuidesFigures(t *testing.T) {
	if os.Getenv("TALON_TEST_GUIDES") == "" && !largeNets() {
		t.Skip("it runs the lab for a minute: make guides")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "which-strategy.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := labSection.FindAllSubmatch(page, -1)
	if len(sections) < 10 {
		t.Fatalf("%d tables with commands, want 10 or more", len(sections))
	}
	if !largeNets() {
		sections = sections[:1]
	}
	dir := t.TempDir()
	for _, section := range sections {
		for _, name := range strings.Split(string(section[3])+","+string(section[4]), ",") {
			link := filepath.Join(dir, name)
			if _, err := os.Lstat(link); err == nil {
				continue
			}
			if err := os.Symlink(filepath.Join(plugintest.Build(t, "plugins/"+name), name+".wasm"), link); err != nil {
				t.Fatal(err)
			}
		}
		run := func(args ...string) string {
			cmd := exec.Command("talon", args...)
			cmd.Dir = dir
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("talon %s: %v\n%s", strings.Join(args, " "), err, &stderr)
			}
			return string(out)
		}
		command := strings.Fields(strings.ReplaceAll(string(section[1]), "'", ""))
		if err := os.RemoveAll(filepath.Join(dir, "results")); err != nil { // a folder takes the results of one run
			t.Fatal(err)
		}
		run(append(command[1:], "--out", "results")...)
		report := []string{"lab", "report", "results/runs.jsonl", "--markdown"}
		if command[2] == "sweep" {
			report = append(report, "--sweep")
		}
		table := run(report...)
		if !strings.Contains(string(page), strings.TrimSpace(table)) {
			t.Errorf("docs/which-strategy.md says otherwise (make lab): %s\n%s", section[1], table)
		}
	}
}
