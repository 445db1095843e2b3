package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
)

func pluginNewCommand() *cobra.Command {
	var world, lang string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a folder with a module that builds and passes its tests",
		Long: `Make the folder NAME with the smallest useful module, and all that it needs: it builds and is tested without a network
(AssemblyScript needs one once, for npm install). Strategies and throttles are written in Go or Rust.
The last part of NAME is the name of the module.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&world, "world", "policy", "what the module is `for`: policy, strategy or throttle")
	cmd.Flags().StringVar(&lang, "lang", "go", "the `language`: "+strings.Join(author.Languages(), ", "))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := author.Create(args[0], world, lang); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is there; next: %s\n", plain(args[0]), plain(author.Next(args[0], lang)))
		return err
	}
	return cmd
}
