package main

import (
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
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why EVENT",
		Short: "Say which plugin decided about an event, and how",
		Long: `Say which plugin decided about an event, and how. The event is a note, a nevent, or the 64 hex digits of its id.

The server remembers the last decisions; the option decisions of talon serve says how many.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		id, err := nip19.ParseEventID(strings.TrimPrefix(args[0], "nostr:"))
		if err != nil {
			return fmt.Errorf("the event %.80q is wrong: %w", args[0], err)
		}
		why, err := server.Why(cmd.Context(), host.ID(id))
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), why)
		}
		return writeWhy(cmd.OutOrStdout(), &why, time.Now())
	})
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
	t.row("fuel", why.Ruling.Fuel)
	t.row("asked", orNone(why.Asked))
	for i := range why.Shadow {
		s := &why.Shadow[i]
		t.row("in shadow", fmt.Sprintf("%s, fuel %d", withReason(s), s.Fuel))
	}
	return t.w.Flush()
}
