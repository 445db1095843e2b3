package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/schnorr"
)

func checkCommand() *cobra.Command {
	c := new(check)
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify the database and the repositories",
		Long: `Verify the database and the repositories.

Database: its pages, the id and signature of every event, every index against the events, replaceable keys and tombstones.
Repositories: each has an announcement, HEAD, branches and tags are those of its newest state event, refs/nostr/ those of its pull
requests, what they reach is there, and nothing is left from a crash. --repositories says how far that goes: "refs" as described,
"objects" reads every byte of every object as well, "no" leaves git out.

It changes nothing and may run while the server does. Each problem is a line; the exit code is 1 if there was any.`,
		Args: cobra.NoArgs,
	}
	loader := config.Flags(cmd.Flags(), config.Always)
	cmd.Flags().Var(&c.depth, "repositories", "`what` to look at of the repositories: refs, objects or no")
	cmd.Flags().DurationVar(&c.limit, "object-time", 10*time.Minute, "most `time` for the objects of one repository")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, log, err := load(cmd, loader)
		if err != nil {
			return err
		}
		return c.run(cmd, cfg, log)
	}
	return cmd
}

// check is one run of talon check.
type check struct {
	depth    checkDepth
	limit    time.Duration
	progress *progress
	report   func(problem string)
	problems int
}

func (c *check) run(cmd *cobra.Command, cfg *config.Config, log *slog.Logger) (err error) {
	if c.limit <= 0 {
		return errors.New("the value of option object-time is wrong: it must be positive")
	}
	db, err := daemon.OpenStoreReadOnly(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c.progress = newProgress(cmd.ErrOrStderr())
	c.report = func(problem string) {
		c.problems++
		c.progress.end()
		fmt.Fprintln(cmd.OutOrStdout(), problem)
	}
	checked, err := c.events(cmd, db)
	if err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	wrong := c.problems
	repositories, err := c.repositories(cmd.Context(), cfg, db)
	c.progress.end()
	if err != nil {
		return err
	}
	also := ""
	if repositories > 0 {
		also = fmt.Sprintf(" and %d repositories", repositories)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%d events%s checked, %d problems\n", checked, also, c.problems)
	switch {
	case wrong > 0:
		return errors.New("the database has problems")
	case c.problems > 0:
		return errors.New("the repositories have problems")
	}
	return nil
}

func (c *check) events(cmd *cobra.Command, db daemon.Store) (int64, error) {
	verified := 0
	checked, err := db.Check(cmd.Context(), func(e *host.Event) error {
		verified++
		c.progress.show(func() string { return fmt.Sprintf("%d events verified", verified) })
		return schnorr.Verify(e)
	}, c.report)
	c.progress.end()
	return checked, err
}
