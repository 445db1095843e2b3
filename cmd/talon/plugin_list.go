package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/admin"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
	"talon/sdk/nip19"
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
	t.row("fuel", why.Ruling.Fuel)
	t.row("asked", orNone(why.Asked))
	for i := range why.Shadow {
		s := &why.Shadow[i]
		t.row("in shadow", fmt.Sprintf("%s, fuel %d", withReason(s), s.Fuel))
	}
	return t.w.Flush()
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

func withReason(s *plugin.Said) string {
	if s.Reason == "" {
		return saidText(s)
	}
	return saidText(s) + ": " + s.Reason
}

func pluginSwapCommand() *cobra.Command {
	return operating(&cobra.Command{
		Use:   "swap NAME FILE",
		Short: "Put a module into the folder of plugins, if it passes every check",
		Long: `Put a module into the folder of plugins as NAME.wasm, if it passes every check; NAME.toml beside it stays as it is.
If FILE` + plugin.SignatureSuffix + ` is there, as talon plugin sign writes it, it goes with it where a signature is asked for.

If a check fails, nothing changes. No event is lost or answered twice: what is being decided ends with the old generation.`,
		Args: cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		wasm, err := readModule(args[1])
		if err != nil {
			return err
		}
		signature, err := readSignature(args[1] + plugin.SignatureSuffix)
		if err != nil {
			return err
		}
		status, err := server.Swap(cmd.Context(), args[0], wasm, signature)
		return changed(cmd, &status, err)
	})
}

// readSignature reads the signature beside a module, nil if there is none.
func readSignature(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the signature: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, admin.MaxSignature+1))
	if err != nil {
		return nil, fmt.Errorf("read the signature: %w", err)
	}
	return text, nil
}

// readModule reads a file that is not larger than a module may be.
func readModule(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open the module: %w", err)
	}
	defer f.Close()
	wasm, err := io.ReadAll(io.LimitReader(f, admin.MaxModule+1))
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	if len(wasm) > admin.MaxModule {
		return nil, fmt.Errorf("the module %s is too big: want at most %s", name, bytesText(admin.MaxModule))
	}
	return wasm, nil
}

func pluginRollbackCommand() *cobra.Command {
	var steps int
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Return to an earlier generation of a plugin",
		Long: `Return to an earlier generation of a plugin: its module and its side-car become what they were then.

One step back from a file that was refused is what still runs. talon plugin show lists the earlier generations that are kept.`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().IntVar(&steps, "steps", 1, "`generations` to go back")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		status, err := server.Rollback(cmd.Context(), args[0], steps)
		return changed(cmd, &status, err)
	})
}

func pluginModeCommand() *cobra.Command {
	return operating(&cobra.Command{
		Use:   "mode NAME enforce|shadow|off",
		Short: "Make a plugin decide, only watch, or rest",
		Long: `Make a plugin decide (enforce), give opinions without effect (shadow), or not run at all (off).

The mode is written into NAME.toml.`,
		Args: cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		var mode sidecar.Mode
		if err := mode.UnmarshalText([]byte(args[1])); err != nil {
			return err
		}
		status, err := server.SetMode(cmd.Context(), args[0], mode)
		return changed(cmd, &status, err)
	})
}

// changed says what runs after a change.
func changed(cmd *cobra.Command, s *plugin.Status, err error) error {
	if err != nil {
		return err
	}
	text := plain(s.Name) + ": mode " + plain(string(s.Mode))
	if r := s.Running; r != nil {
		text += fmt.Sprintf(", generation %d, version %s", r.Generation, plain(r.Version))
		if r.SHA256 != "" {
			text += ", sha256 " + plain(r.SHA256)
		}
	}
	if s.LeftOut {
		text += "; it does not decide: " + leftOut
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}
