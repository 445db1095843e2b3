// Talon is a nostr relay whose every choice is a WebAssembly module.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"talon/cmd/internal/gitremote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	// A file that may not grow is a write that fails, like one on a full disk, not
	// the end of the process.
	signal.Ignore(syscall.SIGXFSZ)
	if path, err := os.Executable(); err == nil {
		compileWith = []string{path, compileName}
	}
	run := root().ExecuteContext
	if filepath.Base(os.Args[0]) == gitremote.Name {
		run = remoteHelps
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "talon: "+err.Error())
		os.Exit(1)
	}
}

// root is the command without a subcommand: it only helps.
func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "talon",
		Short:         "A nostr relay whose every choice is a WebAssembly module",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(serveCommand(), importCommand(), exportCommand(), copyCommand(), checkCommand(), pluginCommand(), eventCommand(), gitCommand(), devnetCommand(), huntCommand(), syncCommand(), labCommand(), versionCommand(), compileCommand(), prepareCommand())
	wrapHelp(cmd)
	return cmd
}
