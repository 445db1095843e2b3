package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/schnorr"
)

func checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify the database",
		Long: `Verify the database: its pages, the id and signature of every event, every index against the events, replaceable keys and
tombstones. It changes nothing and may run while the server does. Each problem is a line; the exit code is 1 if there was any.`,
		Args: cobra.NoArgs,
	}
	loader := config.Flags(cmd.Flags(), config.Always)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, log, err := load(cmd, loader)
		if err != nil {
			return err
		}
		return check(cmd, cfg, log)
	}
	return cmd
}

func check(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (err error) {
	db, err := daemon.OpenStoreReadOnly(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	progress := newProgress(cmd.ErrOrStderr())
	verified, problems := 0, 0
	checked, err := db.Check(cmd.Context(), func(e *host.Event) error {
		verified++
		progress.show(func() string { return fmt.Sprintf("%d events verified", verified) })
		return schnorr.Verify(e)
	}, func(problem string) {
		problems++
		progress.end()
		fmt.Fprintln(cmd.OutOrStdout(), problem)
	})
	progress.end()
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d events checked, %d problems\n", checked, problems)
	if problems > 0 {
		return errors.New("the database has problems")
	}
	return nil
}
