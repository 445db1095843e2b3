package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/moderation"
	"talon/host/moderation/enforce"
	"talon/sdk/nip19"
)

func moderateCommand() *cobra.Command {
	return onlyHelps(&cobra.Command{
		Use:   "moderate",
		Short: "Take down events, authors and repositories, and see the moderation log",
		Long: `Take down events, authors, repositories and others, and see the moderation log. The server may run: it obeys at once. Without a
server these commands work on the database.

TARGET is one of these:
  npub1…                  an author
  npub1…/IDENTIFIER       a repository, with what is about it
  note1… or nevent1…      an event
  naddr1…                 a repository
  kind:NUMBER             all events of a kind
  192.0.2.0/24            clients from a network
  '{"kinds":[1]}'         events that a filter matches (NIP-01)
  event:HEX, author:HEX   the same by hex digits
  object:ID               a git object: pushes and searches may not bring it (only ban)

A ban takes everything that matches out of sight, and refuses later events too. A hide takes what exists out of sight: events up to
now, and repositories as a whole. Both are reversible. talon delete removes for good.`,
	}, moderateAction(moderation.Ban, "Refuse matching events, and hide those that are here", "--purge also removes them for good."),
		moderateAction(moderation.Unban, "End a ban, and accept its events again", "Events that the ban has hidden are shown again, unless another row hides them."),
		moderateAction(moderation.Hide, "Hide matching events and repositories", "Nothing is lost: talon moderate unhide shows it again. Refs and folders of hidden repositories stay."),
		moderateAction(moderation.Unhide, "Show what was hidden", ""),
		moderateAction(moderation.Allow, "Except a target from the lists of policies", "The module lists reads it."),
		moderateAction(moderation.Unallow, "End an exception", ""),
		moderateQueueCommand(), moderateListCommand(), moderateLogCommand(), moderateExportCommand(), moderateImportCommand())
}

// moderateFlags are the options of commands that add rows.
type moderateFlags struct {
	reason, until string
	purge, dryRun bool
}

func (f *moderateFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "`text` that clients and readers of pages see")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only count what is concerned")
	jsonFlag(cmd, "write the result as JSON")
}

func moderateAction(action moderation.Action, short, long string) *cobra.Command {
	var flags moderateFlags
	cmd := &cobra.Command{Use: string(action) + " TARGET...", Short: short, Long: strings.TrimSpace(short + ".\n\n" + long), Args: cobra.MinimumNArgs(1)}
	flags.add(cmd)
	if action == moderation.Ban || action == moderation.Hide || action == moderation.Allow {
		cmd.Flags().StringVar(&flags.until, "until", "", "`time` at which it ends: a date, a time such as 2026-01-02T15:04:05Z, or a duration such as 12h or 30d")
	}
	if action == moderation.Ban {
		cmd.Flags().BoolVar(&flags.purge, "purge", false, "also remove matching content for good")
	}
	return configured(cmd, config.Always|config.Operating|config.Deciding, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, args []string) error {
		rows, err := flags.rows(action, args, time.Now())
		if err != nil {
			return err
		}
		return moderateRows(cmd, cfg, admin.Moderate{Rows: rows, DryRun: flags.dryRun})
	})
}

// rows returns the rows of an action on targets.
func (f *moderateFlags) rows(action moderation.Action, targets []string, now time.Time) (rows []moderation.Row, err error) {
	row := moderation.Row{Action: action, Reason: f.reason, By: operator()}
	if f.until != "" {
		until, err := parseUntil(f.until, now)
		if err != nil {
			return nil, err
		}
		row.Until = until.Unix()
	}
	for _, text := range targets {
		if row.Target, err = moderation.ParseTarget(text); err != nil {
			return nil, err
		}
		switch class := row.Target.Class(); {
		case f.purge && class == moderation.Network:
			return nil, fmt.Errorf("%s is nothing that can be removed: ban it without --purge", row.Target)
		case class == moderation.Network && action == moderation.Hide:
			return nil, fmt.Errorf("a network cannot be hidden: ban it")
		case class == moderation.Object && action == moderation.Hide:
			return nil, fmt.Errorf("a git object cannot be hidden: ban it, and later unban it")
		}
		rows = append(rows, row)
		if f.purge {
			purge := row
			purge.Action, purge.Until = moderation.Purge, 0
			rows = append(rows, purge)
		}
	}
	return rows, nil
}

// operator names the person at the command line.
func operator() string {
	if u, err := user.Current(); err == nil {
		return "cli:" + u.Username
	}
	return "cli"
}

// parseUntil reads a time in the future.
func parseUntil(text string, now time.Time) (time.Time, error) {
	if d, err := parseAge(text); err == nil {
		return now.Add(d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			if !at.After(now) {
				return at, fmt.Errorf("the time %q is over", text)
			}
			return at, nil
		}
	}
	return now, fmt.Errorf("the time %q is wrong: want 2026-01-02, 2026-01-02T15:04:05Z, or a duration such as 12h or 30d", text)
}

// parseAge reads a duration, also in days.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		if err == nil && (d > 1<<63/24-1 || d < 0) {
			err = errors.New("out of range")
		}
		if err != nil {
			return 0, fmt.Errorf("the duration %q is wrong: want a number of days such as 90d", text)
		}
		return 24 * d, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("the duration %q is wrong: want one such as 12h or 90d", text)
	}
	return d, nil
}

// moderateRows has rows added and carried out, by the server if one runs, and shows what came of
// it.
func moderateRows(cmd *cobra.Command, cfg *config.Config, ask admin.Moderate) error {
	result, err := addRows(cmd, cfg, ask)
	if err != nil {
		return errors.New(plain(err.Error()))
	}
	return printFound(cmd, result, func(w io.Writer) error { return writeModerated(w, &result) })
}

func addRows(cmd *cobra.Command, cfg *config.Config, ask admin.Moderate) (result admin.Moderated, err error) {
	line := newProgress(cmd.ErrOrStderr())
	defer line.end()
	show := func(p enforce.Progress) { line.show(func() string { return doneText(&p) }) }
	if path := cfg.Admin(); path != "" {
		result, err = admin.Dial(path).Moderate(cmd.Context(), ask, show)
		if !errors.Is(err, admin.ErrNoServer) {
			return result, err
		}
	}
	return daemon.Moderate(cmd.Context(), cfg, quietLogger(cmd.ErrOrStderr(), cfg), ask, show)
}

// doneText says what was taken down or shown.
func doneText(p *enforce.Progress) string {
	return fmt.Sprintf("%s of %s, %s", counted(int(p.Events), "event"), bytesText(p.Bytes), counted(int(p.Repositories), "repository"))
}

func writeModerated(w io.Writer, result *admin.Moderated) (err error) {
	for i := range result.Rows {
		r := &result.Rows[i]
		if result.DryRun {
			break // the rows have no numbers
		}
		if _, err := fmt.Fprintf(w, "row %d: %s %s\n", r.Number, r.Action, targetText(&r.Target)); err != nil {
			return err
		}
	}
	text := "concerned"
	if result.DryRun {
		text = "would be concerned, nothing was changed"
	}
	if _, err = fmt.Fprintf(w, "%s %s\n", doneText(&result.Done), text); err != nil {
		return err
	}
	for _, path := range result.Reaching {
		if _, err := fmt.Fprintf(w, "%s reaches the object: no page shows it, and nobody can fetch its branches that reach it until its owner pushes without it\n", plain(path)); err != nil {
			return err
		}
	}
	for _, b := range result.Backups {
		if _, err := fmt.Fprintf(w, "the backup %s of %s may still have it: a restore obeys the log, but the bytes stay there\n", plain(b.Dir), b.At.Local().Format("2006-01-02 15:04:05")); err != nil {
			return err
		}
	}
	return nil
}

// targetText shows a target as an operator may give it.
func targetText(t *moderation.Target) string {
	switch t.Class() {
	case moderation.Author:
		return nip19.EncodeNpub(t.PubKey())
	case moderation.Repository:
		return nip19.EncodeNpub(t.PubKey()) + "/" + plain(t.Address().D)
	}
	return plain(t.String())
}

// readLog reads the moderation log, from the database: it may be read while a server runs.
func readLog(ctx context.Context, cfg *config.Config, log *slog.Logger) (rows []moderation.Row, err error) {
	db, err := daemon.OpenStoreReadOnly(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.Moderation(ctx, 0)
}

// showingLog makes a command that shows rows of the log.
func showingLog(cmd *cobra.Command, choose func(rows []moderation.Row, now time.Time) []moderation.Row) *cobra.Command {
	jsonFlag(cmd, "write the rows as JSON")
	cmd.Args = cobra.NoArgs
	return configured(cmd, config.Always, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) error {
		rows, err := readLog(cmd.Context(), cfg, log)
		if err != nil {
			return err
		}
		rows = choose(rows, time.Now())
		return printFound(cmd, rows, func(w io.Writer) error { return writeRows(w, rows) })
	})
}

func moderateListCommand() *cobra.Command {
	return showingLog(&cobra.Command{
		Use:   "list",
		Short: "List the bans, hides, removals and exceptions in force",
	}, func(rows []moderation.Row, now time.Time) []moderation.Row {
		var l moderation.Log
		l.Apply(rows)
		return l.InForce(now.Unix(), moderation.Ban, moderation.Hide, moderation.Purge, moderation.Allow)
	})
}

func moderateLogCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show the rows of the moderation log, the last ones last",
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "`number` of rows")
	return showingLog(cmd, func(rows []moderation.Row, _ time.Time) []moderation.Row {
		return rows[max(0, len(rows)-max(limit, 0)):]
	})
}

func writeRows(w io.Writer, rows []moderation.Row) error {
	t := newTable(w)
	t.section("ROW", "TIME", "ACTION", "TARGET", "UNTIL", "BY", "REASON")
	for i := range rows {
		r := &rows[i]
		until := "-"
		if r.Until > 0 {
			until = time.Unix(r.Until, 0).Local().Format("2006-01-02 15:04:05")
		}
		t.row(r.Number, time.Unix(r.At, 0).Local().Format("2006-01-02 15:04:05"), r.Action, targetText(&r.Target), until, orDash(plain(r.By)), orDash(plain(r.Reason)))
	}
	return t.w.Flush()
}

func moderateExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the moderation log as JSONL, for another operator",
		Args:  cobra.NoArgs,
	}
	return configured(cmd, config.Always, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) error {
		rows, err := readLog(cmd.Context(), cfg, log)
		if err != nil {
			return err
		}
		for i := range rows {
			if _, err := cmd.OutOrStdout().Write(rows[i].Line()); err != nil {
				return err
			}
		}
		return nil
	})
}

// importRows is how many rows one request has: their text fits in its bound.
const importRows = 200

func moderateImportCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Add the rows of another moderation log, from a file or from standard input",
		Long: `Add the rows of another moderation log, from a file that talon moderate export wrote, or from standard input. A row that is here
already is left out. A row about the same target counts by its time.`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only count what is concerned")
	jsonFlag(cmd, "write the result as JSON")
	return configured(cmd, config.Always|config.Operating|config.Deciding, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, args []string) error {
		in := cmd.InOrStdin()
		if len(args) == 1 {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			in = f
		}
		rows, damaged, err := moderation.ReadRows(in)
		if err != nil {
			return fmt.Errorf("read the rows: %w", err)
		}
		if damaged > 0 {
			return fmt.Errorf("%d lines are no rows of a moderation log: nothing was added", damaged)
		}
		sum := admin.Moderated{DryRun: dryRun}
		for len(rows) > 0 {
			n := min(len(rows), importRows)
			one, err := addRows(cmd, cfg, admin.Moderate{Rows: rows[:n], DryRun: dryRun})
			if err != nil {
				return errors.New(plain(err.Error()))
			}
			sum.Rows = append(sum.Rows, one.Rows...)
			sum.Done.Events += one.Done.Events
			sum.Done.Bytes += one.Done.Bytes
			sum.Done.Repositories += one.Done.Repositories
			rows = rows[n:]
		}
		return printFound(cmd, sum, func(w io.Writer) error {
			text := "added"
			if dryRun {
				text = "would be added"
			}
			_, err := fmt.Fprintf(w, "%s %s, %s concerned\n", counted(len(sum.Rows), "row"), text, doneText(&sum.Done))
			return err
		})
	})
}
