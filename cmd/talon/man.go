//go:build manpages

package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// buildCommands are for the build of packages: the command man writes the manual pages.
func buildCommands() []*cobra.Command { return []*cobra.Command{manCommand()} }

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := time.Parse(time.DateOnly, os.Getenv("DATE"))
			if err != nil {
				return err
			}
			header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Talon " + strings.TrimPrefix(version(), "v"), Manual: "Talon"}
			cmd.Root().DisableAutoGenTag = true
			return doc.GenManTree(cmd.Root(), header, args[0])
		},
	}
}
