package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
)

func pluginListCommand() *cobra.Command {
	return showing(&cobra.Command{
		Use:   "list",
		Short: "List the plugins, and why one does not run",
		Args:  cobra.NoArgs,
	}, everything, func(ctx context.Context, server *admin.Client, _ []string) ([]plugin.Status, error) {
		return server.List(ctx)
	}, writeList)
}

// writeList writes a line for each plugin. Below it stands what is wrong with it,
// in full. The last line names the bundled modules that do not run.
func writeList(w io.Writer, list []plugin.Status, now time.Time) error {
	var unused []string
	list = slices.DeleteFunc(slices.Clone(list), func(s plugin.Status) bool {
		if s.Unused {
			unused = append(unused, plain(s.Name))
		}
		return s.Unused
	})
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "there are no plugins")
		return err
	}
	var text bytes.Buffer
	t := newTable(&text)
	t.row("NAME", "MODE", "GENERATION", "VERSION", "PLACE", "CALLS", "FAILURES", "STATE", "FROM")
	for i := range list {
		s := &list[i]
		generation, version, place := "-", "-", "-"
		if r := s.Running; r != nil {
			generation, version, place = fmt.Sprint(r.Generation), r.Version, fmt.Sprint(r.Place)
		}
		t.row(s.Name, s.Mode, generation, version, place, s.Calls, s.Failures, stateOf(s), s.Origin)
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	lines := strings.SplitAfter(text.String(), "\n")
	out := lines[0]
	for i := range list {
		out += lines[i+1]
		for _, problem := range problems(&list[i], now) {
			out += "  " + problem + "\n"
		}
	}
	if len(unused) > 0 {
		out += "bundled too, and not used: " + strings.Join(unused, ", ") + "; talon plugin mode NAME enforce runs one\n"
	}
	_, err := io.WriteString(w, out)
	return err
}

// stateOf is a word for how a plugin does.
func stateOf(s *plugin.Status) string {
	switch {
	case s.Running != nil && s.BreakerOpen:
		return "resting"
	case s.Running != nil && len(s.Running.Functions) == 0:
		return "idle"
	case s.Running != nil:
		return "running"
	case s.Missing != "":
		return "missing"
	case s.Quarantine != nil:
		return "refused"
	case s.Unused:
		return "unused"
	case s.LeftOut:
		return "left out"
	case s.Mode == sidecar.Off:
		return "off"
	}
	return "stopped"
}

// problems says what is wrong with a plugin, one sentence each.
func problems(s *plugin.Status, now time.Time) []string {
	var list []string
	if q := s.Quarantine; q != nil {
		what := "what lies in the folder was refused"
		if !q.At.IsZero() {
			what += " " + ago(q.At, now)
		}
		list = append(list, what+": "+plain(q.Reason))
	}
	if s.Missing != "" {
		list = append(list, "it is required and does not run: what it would judge is refused; "+plain(s.Missing))
	}
	if s.BreakerOpen {
		text := "it has failed too often and rests for a while"
		if s.LastFailure != "" {
			text += "; the last failure: " + plain(s.LastFailure)
		}
		list = append(list, text)
	}
	for _, set := range sets(s) {
		if set.Problem != "" {
			list = append(list, fmt.Sprintf("set %s: %s", plain(set.Name), plain(set.Problem)))
		}
	}
	return list
}

func sets(s *plugin.Status) []plugin.Set {
	if s.Running == nil {
		return nil
	}
	return s.Running.Sets
}

// saidText is an opinion in a few words.
func saidText(s *plugin.Opinion) string {
	text := plain(s.Action)
	if s.Rule != "" {
		text += " " + plain(s.Rule)
	}
	if s.Plugin == "" {
		return text + " (no plugin had an opinion)"
	}
	return fmt.Sprintf("%s (%s, generation %d)", text, plain(s.Plugin), s.Generation)
}

func pluginShowCommand() *cobra.Command {
	return showing(&cobra.Command{
		Use:   "show NAME",
		Short: "Show everything that is known of a plugin",
		Args:  cobra.ExactArgs(1),
	}, "write it as JSON", func(ctx context.Context, server *admin.Client, args []string) (*plugin.Status, error) {
		list, err := server.List(ctx)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if list[i].Name == args[0] {
				return &list[i], nil
			}
		}
		return nil, fmt.Errorf("%w: %.80q; talon plugin list shows all", plugin.ErrUnknown, args[0])
	}, writeStatus)
}

func writeStatus(w io.Writer, s *plugin.Status, now time.Time) error {
	t := newTable(w)
	t.row("name", s.Name)
	t.row("mode", s.Mode)
	t.row("state", stateOf(s))
	t.row("from", fromText(s.Origin))
	for _, problem := range problems(s, now) {
		t.row("problem", problem)
	}
	if s.LeftOut {
		t.row("left out", leftOut)
	}
	t.row("calls", s.Calls)
	t.row("failures", s.Failures)
	if s.LastFailure != "" && !s.BreakerOpen {
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

// fromText says where a module comes from.
func fromText(o plugin.Origin) string {
	switch o {
	case plugin.FromBundle:
		return "bundled: it is inside the program"
	case plugin.FromFolder:
		return "the folder of plugins"
	case plugin.FromNodes:
		return "the other nodes of the relay"
	case plugin.FromProgram:
		return "the program that the side-car names"
	}
	return plain(string(o))
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
