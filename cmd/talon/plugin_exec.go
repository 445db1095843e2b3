package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func pluginExecCommand() *cobra.Command {
	var bench runOptions
	pass := "accept"
	cmd := &cobra.Command{
		Use:   "exec MODULE",
		Short: "Be a plugin of strfry that decides by a module",
		Long: `Be a plugin of strfry: read one event a line as JSON from standard input, write the module's verdict as JSON to standard
output. What the module remembers lives as long as the process. What strfry has stored is out of reach: --facts says what there is.

In strfry.conf:  relay.writePolicy.plugin = "/usr/local/bin/talon plugin exec /etc/strfry/words.wasm"`,
		Args: cobra.ExactArgs(1),
	}
	bench.flags(cmd)
	cmd.Flags().StringVar(&pass, "pass", pass, "the answer if the module has no `opinion` on an event: accept or reject")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if pass != "accept" && pass != "reject" {
			return fmt.Errorf("pass %.40q: want accept or reject", pass)
		}
		return quoted(bench.strfryAdapter(args[0], cmd.InOrStdin(), pass == "accept"))
	}
	return cmd
}

// strfryAdapter lets a module answer as a write-policy plugin of strfry does.
func (b *runOptions) strfryAdapter(path string, in io.Reader, pass bool) error {
	r, err := b.runner(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.CheckSift(b.facts != ""); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(b.cmd.Context())
	defer stop()
	swept := make(chan error, 1)
	go func() { swept <- r.Run(ctx) }()
	// A signal does not end the wait for a line.
	sifted := make(chan error, 1)
	go func() { sifted <- r.RunStrfry(ctx, in, b.cmd.OutOrStdout(), pass, moduleLog(b.cmd.ErrOrStderr())) }()
	select {
	case err = <-sifted:
	case <-ctx.Done():
	}
	stop()
	return errors.Join(err, <-swept)
}
