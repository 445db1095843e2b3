package main

import (
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/moderation/reports"
)

func moderateQueueCommand() *cobra.Command {
	limit := 100
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List what trusted people have reported and nobody has decided about",
		Long: `List what trusted people have reported (NIP-56) and nobody has decided about, the newest reports first. Options operators, moderators
and reporters name these people.

An item leaves the queue when you decide: talon moderate ban or hide takes it down, talon moderate allow keeps it. It also leaves when
its reports are deleted, or when it is not here any more. A newer report brings it back.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "`number` of lines")
	jsonFlag(cmd, "write the list as JSON")
	return configured(cmd, config.Always|config.Operating|config.Deciding, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) error {
		if limit < 1 {
			return errors.New("the value of option limit is wrong: it must be positive")
		}
		list, err := readQueue(cmd, cfg, log, limit)
		if err != nil {
			return err
		}
		return printFound(cmd, list, func(w io.Writer) error { return writeQueue(w, list) })
	})
}

// readQueue asks the running server, or reads the database.
func readQueue(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, limit int) ([]reports.Item, error) {
	if path := cfg.Admin(); path != "" {
		list, err := admin.Dial(path).Queue(cmd.Context(), limit)
		if !errors.Is(err, admin.ErrNoServer) {
			return list, err
		}
	}
	return daemon.Queue(cmd.Context(), cfg, log, limit)
}

func writeQueue(w io.Writer, list []reports.Item) error {
	t := newTable(w)
	t.section("TARGET", "REPORTS", "LATEST", "TYPE", "BY", "TEXT")
	for i := range list {
		it := &list[i]
		by := ""
		if len(it.By) > 0 {
			by = it.By[0]
		}
		t.row(targetText(&it.Target), it.Reports, time.Unix(it.At, 0).Local().Format("2006-01-02 15:04:05"), orDash(plain(it.Type)), by, orDash(plain(it.Reason)))
	}
	return t.w.Flush()
}
