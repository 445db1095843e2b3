package main

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// onlyHelps makes a command that does nothing without one of those below it.
func onlyHelps(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_ = cmd.Help()
		return errors.New("no command was given")
	}
	cmd.AddCommand(commands...)
	return cmd
}

// helpColumns is how wide the text of help is.
const helpColumns = 100

// wrapHelp breaks the long texts of a command and of those below it.
func wrapHelp(cmd *cobra.Command) {
	cmd.Long = wrap(cmd.Long)
	for _, c := range cmd.Commands() {
		wrapHelp(c)
	}
}

// wrap breaks paragraphs into lines. Lines that are indented stay as they are.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	end := func() {
		if column > 0 {
			b.WriteByte('\n')
		}
		column = 0
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, " ") {
			end()
			b.WriteString(line + "\n")
			continue
		}
		for word := range strings.FieldsSeq(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case column == 0:
			case column+1+n > helpColumns:
				end()
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += n
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
