package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/config"
)

// operating makes a command that asks the running server.
func operating(cmd *cobra.Command, do func(cmd *cobra.Command, server *admin.Client, args []string) error) *cobra.Command {
	loader := config.Flags(cmd.Flags(), config.Operating)
	var patience time.Duration
	cmd.Flags().DurationVar(&patience, "wait", 0, "wait at most this `time` for a server that starts")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := loader.Load(os.LookupEnv)
		if err != nil {
			return err
		}
		server, err := runningServer(cfg)
		if err != nil {
			return err
		}
		await(cmd.Context(), server, patience)
		switch err = do(cmd, server, args); {
		case errors.Is(err, admin.ErrNoServer):
			return noServer(err)
		case err != nil:
			// It may quote what a module says of itself.
			return errors.New(plain(err.Error()))
		}
		return nil
	}
	return cmd
}

// await waits until a server listens on the admin socket, for the time at most.
func await(ctx context.Context, server *admin.Client, patience time.Duration) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for ctx.Err() == nil {
		if _, err := server.List(ctx); !errors.Is(err, admin.ErrNoServer) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// showing makes a command that asks the running server, and writes what it found as text, or as JSON.
func showing[T any](cmd *cobra.Command, usageJSON string,
	ask func(ctx context.Context, server *admin.Client, args []string) (T, error),
	write func(w io.Writer, found T, now time.Time) error,
) *cobra.Command {
	jsonFlag(cmd, usageJSON)
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		found, err := ask(cmd.Context(), server, args)
		if err != nil {
			return err
		}
		return printFound(cmd, found, func(w io.Writer) error { return write(w, found, time.Now()) })
	})
}

// everything is what --json is for where a table shows less.
const everything = "write everything that is known, as JSON"

// runningServer returns the server at the admin socket.
func runningServer(cfg *config.Config) (*admin.Client, error) {
	path := cfg.Admin()
	if path == "" {
		return nil, errors.New("the admin socket is off (option admin-socket): start the server with one")
	}
	return admin.Dial(path), nil
}

// noServer says what to do where nobody listens on the admin socket.
func noServer(err error) error {
	return fmt.Errorf("%w: start one with talon serve, or say with --data or --admin-socket where it is", err)
}
