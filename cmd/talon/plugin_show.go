package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/plugin"
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
