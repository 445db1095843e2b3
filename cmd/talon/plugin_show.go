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

func pluginShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show everything that is known of a plugin",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		list, err := server.List(cmd.Context())
		if err != nil {
			return err
		}
		for i := range list {
			switch {
			case list[i].Name != args[0]:
			case asJSON:
				return printJSON(cmd.OutOrStdout(), list[i])
			default:
				return writeStatus(cmd.OutOrStdout(), &list[i], time.Now())
			}
		}
		return fmt.Errorf("%w: %.80q; talon plugin list shows all", plugin.ErrUnknown, args[0])
	})
}

func writeStatus(w io.Writer, s *plugin.Status, now time.Time) error {
	t := newTable(w)
	t.row("name", s.Name)
	t.row("mode", s.Mode)
	t.row("state", stateOf(s))
	for _, problem := range problems(s, now) {
		t.row("problem", problem)
	}
	if s.LeftOut {
		t.row("left out", leftOut)
	}
	t.row("calls", s.Calls)
	t.row("failures", s.Failures)
	if s.LastFailure != "" && !s.Resting {
		t.row("last failure", s.LastFailure)
	}
	t.row("remembers", bytesText(s.StateBytes))
	if r := s.Running; r != nil {
		t.row("generation", fmt.Sprintf("%d, since %s (%s)", r.Generation, r.Since.UTC().Format(time.RFC3339), ago(r.Since, now)))
		if p := r.Program; p != nil {
			t.row("program", p.Path)
			t.row("accept means", p.OnAccept)
			t.row("timeout", fmt.Sprintf("%d ms", p.TimeoutMS))
			t.row("processes", fmt.Sprintf("%d at most, %d now", p.Processes, r.Instances))
			t.row("place", r.Place)
			t.row("functions", orNone(r.Functions))
			return writeRest(t, s, now)
		}
		t.row("sha256", r.SHA256)
		if r.SignedBy != "" {
			t.row("signed by", r.SignedBy)
		}
		t.row("module", strings.TrimSpace(r.Manifest+" "+r.Version))
		t.row("summary", r.Summary)
		t.row("worlds", orNone(r.Worlds))
		t.row("place", r.Place)
		t.row("functions", orNone(r.Functions))
		t.row("capabilities", orNone(r.Capabilities))
		t.row("fuel", fmt.Sprintf("%d a call", r.Fuel))
		t.row("memory", fmt.Sprintf("%s an instance at most; %s in %d now", bytesText(r.Memory), bytesText(r.MemoryUsed), r.Instances))
	}
	return writeRest(t, s, now)
}

// writeRest writes what is a table of its own.
func writeRest(t table, s *plugin.Status, now time.Time) error {
	if list := sets(s); len(list) > 0 {
		t.section("SET", "MEMBERS", "FROM", "PROBLEM")
		for _, set := range list {
			t.row(set.Name, set.Members, set.From, set.Problem)
		}
	}
	if len(s.Disagreements) > 0 {
		t.section("DISAGREEMENTS", "IN SHADOW", "THE CHAIN")
		for _, d := range s.Disagreements {
			t.row(d.Count, d.Shadow, d.Chain)
		}
	}
	if len(s.Earlier) > 0 {
		t.section("STEPS BACK", "GENERATION", "VERSION", "UNTIL", "SHA256")
		for i, e := range s.Earlier {
			t.row(i+1, e.Generation, e.Version, ago(e.Until, now), e.SHA256)
		}
	}
	return t.w.Flush()
}

// leftOut is why a policy does not decide, whatever its mode.
const leftOut = "the server's option policy does not name it"

// section begins another table: columns do not go on over a blank line.
func (t table) section(head ...any) {
	t.row()
	t.row(head...)
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

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

func pluginDisagreementsCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "disagreements NAME",
		Short: "Show events about which a plugin in shadow mode and the chain disagree",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write them as JSON")
	cmd.Flags().IntVar(&limit, "limit", 20, "`events` to show, the newest first")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		list, err := server.Disagreements(cmd.Context(), args[0], limit)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return writeDisagreements(cmd.OutOrStdout(), list, time.Now())
	})
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

func withReason(s *plugin.Said) string {
	if s.Reason == "" {
		return saidText(s)
	}
	return saidText(s) + ": " + s.Reason
}
