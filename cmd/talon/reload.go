package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/config"
)

func reloadCommand() *cobra.Command {
	return showing(&cobra.Command{
		Use:   "reload",
		Short: "Have the running server read its configuration again",
		Long: `Have the running server read its configuration file again, as SIGHUP does. The server checks all of it. If something is wrong, nothing
changes and the exit status is 1. It applies log-level and min-free. Other options need a restart; the command lists them.
Modules and their side-cars need no reload: the server follows their folder.`,
		Args: cobra.NoArgs,
	}, everything, func(ctx context.Context, server *admin.Client, _ []string) ([]config.Change, error) {
		return server.Reload(ctx)
	}, writeReload)
}

func writeReload(w io.Writer, changes []config.Change, _ time.Time) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "nothing changed")
		return err
	}
	for _, c := range changes {
		what := "needs a restart"
		if c.Applied {
			what = "applied"
		}
		if _, err := fmt.Fprintf(w, "%s: %q becomes %q: %s\n", c.Option, c.From, c.To, what); err != nil {
			return err
		}
	}
	return nil
}
