package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"talon/cmd/internal/author"
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

func pluginInspectCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [MODULE [MODULE]]",
		Short: "Show what a module may do, its budgets and settings; of two, what is not the same",
		Long: `Show what a module is for, what it may do, its budgets and its settings. With two modules, show what is not the same in them.
MODULE is a .wasm file, or a folder, which is built first; without it, the folder in which you are.`,
		Args: cobra.MaximumNArgs(2),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write it as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			args = []string{"."}
		}
		var list []*author.Inspection
		for _, path := range args {
			source, err := author.Find(cmd.Context(), path, "", cmd.ErrOrStderr())
			if err != nil {
				return quoted(err)
			}
			in, err := source.Inspect(cmd.Context())
			if err != nil {
				return quoted(err)
			}
			list = append(list, in)
		}
		switch {
		case asJSON && len(list) == 1:
			return printJSON(cmd.OutOrStdout(), list[0])
		case asJSON:
			return printJSON(cmd.OutOrStdout(), list)
		case len(list) == 1:
			return writeInspection(cmd.OutOrStdout(), list[0])
		}
		return writeChanges(cmd.OutOrStdout(), args, list)
	}
	return cmd
}

func writeInspection(w io.Writer, in *author.Inspection) error {
	t := newTable(w)
	for _, row := range in.Rows(bytesText) {
		t.row(row.Label, row.Value)
	}
	return t.w.Flush()
}

func writeChanges(w io.Writer, files []string, list []*author.Inspection) error {
	changes := author.Changes(list[0].Rows(bytesText), list[1].Rows(bytesText))
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "they are the same")
		return err
	}
	t := newTable(w)
	t.row("", files[0], files[1])
	for _, c := range changes {
		t.row(c.Label, orDash(c.Before), orDash(c.After))
	}
	return t.w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plain returns text that a terminal shows and does not obey: modules and events
// may say anything.
func plain(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		s = s[n:]
	}
	return b.String()
}

// ago says how long ago a time was, as one would say it.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "at an unknown time"
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}

// bytesText writes a size with one decimal at most.
func bytesText(n int64) string {
	for _, unit := range []struct {
		name  string
		bytes int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.bytes {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(unit.bytes), 'f', 1, 64), ".0") + " " + unit.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// saidText is an opinion in a few words.
func saidText(s *plugin.Said) string {
	text := plain(s.Action)
	if s.Rule != "" {
		text += " " + plain(s.Rule)
	}
	if s.Plugin == "" {
		return text + " (no plugin had an opinion)"
	}
	return fmt.Sprintf("%s (%s, generation %d)", text, plain(s.Plugin), s.Generation)
}

// table writes rows of cells in columns, which two spaces keep apart.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t table) row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(t.w, "\t")
		}
		fmt.Fprint(t.w, plain(fmt.Sprint(cell)))
	}
	fmt.Fprintln(t.w)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
