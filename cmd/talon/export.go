package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/wire"
)

func exportCommand() *cobra.Command {
	var filter string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write events as JSONL to standard output",
		Long: `Write events as JSONL to standard output, oldest first, or newest first with a filter.

It may run while the server does; what is stored meanwhile may be missing.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&filter, "filter", "", "only events that this `filter` matches, JSON as in NIP-01")
	return configured(cmd, config.Always, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) error {
		return export(cmd, cfg, log, filter)
	})
}

func export(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, filter string) (err error) {
	var f *host.Filter
	if filter != "" {
		parsed, err := wire.ParseFilter([]byte(filter), &wire.Limits{SubID: 1, Filters: 1, Values: 1 << 20})
		if err != nil {
			return fmt.Errorf("the value of option filter is wrong: %w", err)
		}
		f = &parsed
	}
	db, err := daemon.OpenStoreReadOnly(cmd.Context(), cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<20)
	progress := newProgress(cmd.ErrOrStderr())
	if terminal(cmd.OutOrStdout()) {
		progress = newProgress(io.Discard) // it would stand between the events
	}
	n := 0
	err = each(cmd.Context(), db, f, func(json []byte) error {
		n++
		progress.show(func() string { return fmt.Sprintf("%d events", n) })
		if _, err := out.Write(json); err != nil {
			return err
		}
		return out.WriteByte('\n')
	})
	progress.end()
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the events: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d events\n", n)
	return nil
}

// each calls yield with every event, or every one that the filter matches.
func each(ctx context.Context, db daemon.Store, f *host.Filter, yield func(json []byte) error) error {
	if f == nil {
		return db.Export(ctx, yield)
	}
	own := *f
	own.Reader = host.Everything // the operator's
	found, err := db.Select(ctx, []host.Filter{own}, time.Now().Unix())
	if err != nil {
		return err
	}
	return db.Fetch(ctx, found.Rows, func(_ int64, json []byte) error { return yield(json) })
}
