package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/admin"
	"talon/host/plugin"
	"talon/sdk/nip19"
)

func pluginWhyCommand() *cobra.Command {
	return showing(&cobra.Command{
		Use:   "why EVENT",
		Short: "Say which plugin decided about an event, and how",
		Long: `Say which plugin decided about an event, and how. The event is a note, a nevent, or the 64 hex digits of its id.

The server remembers the last decisions; the option decisions of talon serve says how many.`,
		Args: cobra.ExactArgs(1),
	}, "write it as JSON", func(ctx context.Context, server *admin.Client, args []string) (*plugin.Why, error) {
		id, err := nip19.ParseEventID(strings.TrimPrefix(args[0], "nostr:"))
		if err != nil {
			return nil, fmt.Errorf("the event %.80q is wrong: %w", args[0], err)
		}
		why, err := server.Why(ctx, host.ID(id))
		return &why, err
	}, writeWhy)
}

func writeWhy(w io.Writer, why *plugin.Why, now time.Time) error {
	t := newTable(w)
	t.row("event", why.Event)
	t.row("from", why.Source)
	t.row("decided", fmt.Sprintf("%s (%s)", why.At.UTC().Format(time.RFC3339), ago(why.At, now)))
	t.row("ruling", saidText(&why.Ruling))
	if why.Ruling.Reason != "" {
		t.row("reason", why.Ruling.Reason)
	}
	if why.Ruling.Wake != "" {
		t.row("waits for", "an event that matches "+why.Ruling.Wake)
	}
	if why.Limits != nil {
		t.row("limits", limitsText(why.Limits))
	}
	if why.Refused != "" {
		t.row("refused", "by the server: "+why.Refused)
	}
	t.row("fuel", why.Ruling.Fuel)
	t.row("asked", orNone(why.Asked))
	if a := why.Audience; a != nil {
		t.row("only for", fmt.Sprintf("%s (%s by %s)", a.Audience, a.Rule, a.Plugin))
	}
	for i := range why.Shadow {
		s := &why.Shadow[i]
		t.row("in shadow", fmt.Sprintf("%s, fuel %d", withReason(s), s.Fuel))
	}
	return t.w.Flush()
}

// limitsText says what an author may take.
func limitsText(l *plugin.AllowedBytes) string {
	var parts []string
	if l.Author > 0 {
		parts = append(parts, host.BytesText(l.Author)+" of events and git data of the author")
	}
	if l.Repository > 0 {
		parts = append(parts, host.BytesText(l.Repository)+" of git data of the repository")
	}
	return "at most " + strings.Join(parts, ", ")
}

func pluginDisagreementsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "disagreements NAME",
		Short: "Show events about which a plugin in shadow mode and the chain disagree",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "`events` to show, the newest first")
	ask := func(ctx context.Context, s *admin.Client, args []string) ([]plugin.Disagreement, error) {
		return s.Disagreements(ctx, args[0], limit)
	}
	return showing(cmd, "write them as JSON", ask, writeDisagreements)
}

func writeDisagreements(w io.Writer, list []plugin.Disagreement, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "there are no disagreements")
		return err
	}
	t := newTable(w)
	t.row("WHEN", "EVENT", "IN SHADOW", "THE CHAIN")
	for i := range list {
		d := &list[i]
		t.row(ago(d.At, now), d.Event, withReason(&d.Shadow), withReason(&d.Chain))
	}
	return t.w.Flush()
}

func withReason(s *plugin.Opinion) string {
	if s.Reason == "" {
		return saidText(s)
	}
	return saidText(s) + ": " + s.Reason
}
