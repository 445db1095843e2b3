package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginInspectCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [MODULE [MODULE]]",
		Short: "Show what a module may do, its budgets and settings; of two, what is not the same",
		Long: `Show what a module is for, what it may do, its budgets and its settings. With two modules, show what is not the same in them.
MODULE is a .wasm file, or a folder, which is built first; without it, the folder in which you are.`,
		Args: cobra.MaximumNArgs(2),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		var list []*author.Inspection
		for _, path := range args {
			source, err := author.Find(cmd.Context(), path, "", cmd.ErrOrStderr())
			if err != nil {
				return quoted(err)
			}
			in, err := source.Inspect(cmd.Context())
			if err != nil {
				return quoted(err)
			}
			list = append(list, in)
		}
		switch {
		case asJSON && len(list) == 1:
			return printJSON(cmd.OutOrStdout(), list[0])
		case asJSON:
			return printJSON(cmd.OutOrStdout(), list)
		case len(list) == 1:
			return writeInspection(cmd.OutOrStdout(), list[0])
		}
		return writeChanges(cmd.OutOrStdout(), args, list)
	}
	return cmd
}

func writeInspection(w io.Writer, in *author.Inspection) error {
	t := newTable(w)
	for _, row := range in.Rows(bytesText) {
		t.row(row.Label, row.Value)
	}
	return t.w.Flush()
}

func writeChanges(w io.Writer, files []string, list []*author.Inspection) error {
	changes := author.Changes(list[0].Rows(bytesText), list[1].Rows(bytesText))
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "they are the same")
		return err
	}
	t := newTable(w)
	t.row("", files[0], files[1])
	for _, c := range changes {
		t.row(c.Label, orDash(c.Before), orDash(c.After))
	}
	return t.w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
