package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 25)
	text := "one\ntwo\n\n  a list   of\n  two\n" + long
	want := "one two\n\n  a list   of\n  two\n" + strings.TrimSpace(strings.Repeat("word ", 20)) + "\n" + strings.TrimSpace(strings.Repeat("word ", 5))
	if got := wrap(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := wrap(""); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

// TestHelpFits: no line of the texts of help is wider than a terminal.
func TestHelpFits(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 120 {
				t.Errorf("%s: a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(root())
}

// TestCommandsAreLight: what every start of the program pays for is names, flags and texts, and
// not what the help of one command shows.
func TestCommandsAreLight(t *testing.T) {
	if n := testing.AllocsPerRun(3, func() { root() }); n > 20_000 {
		t.Errorf("the commands take %.0f allocations", n)
	}
}
