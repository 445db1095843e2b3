package main

import (
	"github.com/spf13/cobra"

	"talon/host/plugin/guest"
)

// compileWith is the command of this very program that compiles a module; nil in tests
// that run no program.
var compileWith []string

const compileName = "compile-plugin"

// compileCommand is what a server starts for a module that it does not know yet.
func compileCommand() *cobra.Command {
	return &cobra.Command{
		Use:    compileName,
		Short:  "Compile a module for a server, which starts this by itself",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return guest.ServeCompile(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
