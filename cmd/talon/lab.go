package main

import (
	"errors"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Try strategies and throttles in a simulated network",
		Long: `Try strategies and throttles, the files that production runs, in a network in virtual time: seeded, with faults, repeatable to the byte.

What runs leave is a file of JSON lines. Comparisons are paired by seed: variants in the same world with the same seed had the same weather.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	group(cmd, "run", "Try modules:", labRunCommand(), labWatchCommand(), labRecordCommand())
	group(cmd, "results", "Look at results:", labReportCommand(), labDiffCommand())
	return cmd
}

// columns returns how wide a table may be: that of the terminal, or COLUMNS, or 0 for as
// wide as it is.
func columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
}
