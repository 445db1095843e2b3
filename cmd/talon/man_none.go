//go:build !manpages

package main

import "github.com/spf13/cobra"

// buildCommands are commands for the build of packages alone (man.go).
func buildCommands() []*cobra.Command { return nil }
