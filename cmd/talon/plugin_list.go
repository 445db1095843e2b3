package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
)

func pluginListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins, and why one does not run",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write everything that is known, as JSON")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, _ []string) error {
		list, err := server.List(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), list)
		}
		return writeList(cmd.OutOrStdout(), list, time.Now())
	})
}

// writeList writes a line for each plugin. Below it stands what is wrong with it,
// in full.
func writeList(w io.Writer, list []plugin.Status, now time.Time) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "there are no plugins")
		return err
	}
	var text bytes.Buffer
	t := newTable(&text)
	t.row("NAME", "MODE", "GENERATION", "VERSION", "PLACE", "CALLS", "FAILURES", "STATE")
	for i := range list {
		s := &list[i]
		generation, version, place := "-", "-", "-"
		if r := s.Running; r != nil {
			generation, version, place = fmt.Sprint(r.Generation), r.Version, fmt.Sprint(r.Place)
		}
		t.row(s.Name, s.Mode, generation, version, place, s.Calls, s.Failures, stateOf(s))
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
	_, err := io.WriteString(w, out)
	return err
}

// stateOf is a word for how a plugin does.
func stateOf(s *plugin.Status) string {
	switch {
	case s.Running != nil && s.Resting:
		return "resting"
	case s.Running != nil && len(s.Running.Functions) == 0:
		return "idle"
	case s.Running != nil:
		return "running"
	case s.Missing != "":
		return "missing"
	case s.Quarantine != nil:
		return "refused"
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
	if s.Resting {
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
