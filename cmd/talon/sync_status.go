package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/admin"
	"talon/host/relaysync"
)

func syncStatusCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "status [RELAY|REPOSITORY]",
		Short: "Show how a running server follows other relays",
		Long: `Show how a running server follows other relays: which of them it is connected to, what they can do, what is open and pending on them, and which repositories
are covered least.

With a relay's URL: that relay, and the repositories that list it. With a repository (npub/identifier, or 30617:pubkey:identifier): the relays that it lists.`,
		Example: `  talon sync status
  talon sync status wss://relay.example.com
  talon sync status npub1…/talon --json`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "`number` of relays and of repositories")
	ask := func(ctx context.Context, s *admin.Client, args []string) (*relaysync.Snapshot, error) {
		q := relaysync.Query{Limit: limit}
		if len(args) == 1 {
			var err error
			if q.Relay, q.Repository, err = parseSynced(args[0]); err != nil {
				return nil, err
			}
		}
		status, err := s.Sync(ctx, q)
		return &status, err
	}
	return showing(cmd, everything, ask, writeSync)
}

func syncNowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "now [RELAY]",
		Short: "Have a running server compare everything with a relay, or with all",
		Long: `Have a running server compare everything with a relay, or with all that it follows, as it does once a day.

It connects to them anew for that. A relay that rests after failures is connected to when its time has come, and compared then: see sync unbar.`,
		Args: cobra.MaximumNArgs(1),
	}
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		n, err := server.SyncNow(cmd.Context(), strings.Join(args, ""))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s compared anew\n", counted(n, "relay"))
		return err
	})
}

func syncUnbarCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unbar RELAY",
		Short: "Make a running server forget the failures of a relay",
		Long: `Make a running server forget the failures of a relay: failures, and how long it was to be left alone. If the relay is wanted, it is connected to at once.

A relay is barred when its name does not resolve, its certificate is wrong, or it breaks the protocol, several times within ten minutes or more. It is then left alone for as long as that has lasted, at most 12 hours; after a day it is dead. Bootstrap relays are never barred. What the relay does next counts as before.`,
		Args: cobra.ExactArgs(1),
	}
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		return server.SyncUnbar(cmd.Context(), args[0])
	})
}

// parseSynced returns the relay, or the address of the repository, that a text names.
func parseSynced(text string) (relay, repository string, err error) {
	if a, ok := parseRepository(text); ok {
		return "", a.String(), nil
	}
	if !strings.Contains(text, "://") {
		return "", "", fmt.Errorf("%.80q is wrong: want the URL of a relay, such as wss://relay.example.com, or a repository: npub/identifier, or 30617:pubkey:identifier", text)
	}
	return text, "", nil
}

// writeSync writes a line for each relay and each repository. Below the relays stands why
// those that fail do.
func writeSync(w io.Writer, s *relaysync.Snapshot, now time.Time) error {
	t := newTable(w)
	t.row(fmt.Sprintf("%d of %s connected, at most %d at once; %d complete; %s followed",
		s.Connections, counted(s.Tracked, "relay"), s.MaxConnections, s.Complete, counted(s.Repositories, "repository")))
	t.section("RELAY", "STATE", "HEALTH", "REPOSITORIES", "OPEN", "PENDING", "COMPLETE SINCE", "RECEIVED", "LIMITS", "NEXT")
	for i := range s.Relays {
		r := &s.Relays[i]
		open := fmt.Sprintf("%d (%s)", r.Subscriptions, counted(r.Filters, "filter"))
		complete, next := "-", "-"
		if !r.Complete.IsZero() {
			complete = ago(r.Complete, now)
		}
		switch {
		case r.Next.After(now):
			next = "attempt " + in(r.Next, now)
		case r.NextCheck.After(now):
			next = "check " + in(r.NextCheck, now)
		}
		name := r.Relay
		if r.Bootstrap {
			name += " (bootstrap)"
		}
		t.row(name, r.State, r.Health, r.Repositories, open, r.Pending, complete, bytesText(r.Bytes), learntText(&r.Limits), next)
	}
	writeOpen(t, s, now)
	head := false
	for i := range s.Relays {
		u := s.Relays[i].Uncovered
		if u == nil {
			continue
		}
		if !head {
			t.section("NO ROOM FOR SUBSCRIPTIONS", "TO", "SINCE", "")
			head = true
		}
		t.row(s.Relays[i].Relay, uncoveredText(u), ago(u.Since, now), "what is new there is fetched from time to time")
	}
	head = false
	for i := range s.Relays {
		r := &s.Relays[i]
		if r.Reason == "" || r.State == relaysync.StateConnected {
			continue
		}
		if !head {
			t.section("NOT CONNECTED", "FAILURES", "REASON")
			head = true
		}
		t.row(r.Relay, r.Failures, r.Reason)
	}
	if len(s.Coverage) == 0 {
		return t.w.Flush()
	}
	t.section("REPOSITORY", "RELAYS", "CONNECTED", "COMPLETE", "")
	for i := range s.Coverage {
		c := &s.Coverage[i]
		note := ""
		if c.Held {
			note = "waits for git data"
		}
		t.row(c.Repository, c.Relays, c.Connected, c.Complete, note)
	}
	return t.w.Flush()
}

// openTexts say what is open at a relay, by the names in the status.
var openTexts = map[string]string{
	"nothing asked":        "nothing was asked for yet",
	"stored events":        "stored events are being fetched: %d subscriptions and fetches",
	"comparison":           "the strategy has not fetched or compared everything",
	"old dates":            "events with old dates that came there during an absence: fetched with the next check",
	"closed subscriptions": "the relay closed a subscription, which is opened again later",
	"repositories":         "repositories without a subscription there: %d",
	"root events":          "root events without a subscription there: %d",
	"authors":              "authors of comments whose deletions have no subscription there: %d",
	"rest":                 "the relay says that it is asked too much, and rests",
	"cut short":            "a fetch was cut short",
}

// writeOpen writes a line for each reason why a connected relay is not complete.
func writeOpen(t table, s *relaysync.Snapshot, now time.Time) {
	head := false
	for i := range s.Relays {
		r := &s.Relays[i]
		for _, open := range r.Open {
			if !head {
				t.section("NOT COMPLETE", "SINCE", "WHAT IS OPEN")
				head = true
			}
			text := openTexts[open.What]
			switch {
			case text == "":
				text = open.What
			case strings.Contains(text, "%d"):
				text = fmt.Sprintf(text, open.Count)
			}
			if open.Until.After(now) {
				text += "; that ends " + in(open.Until, now)
			}
			t.row(r.Relay, ago(open.Since, now), text)
		}
	}
}

// uncoveredText says in short what has no subscription.
func uncoveredText(u *relaysync.Uncovered) string {
	var parts []string
	if u.Repositories > 0 {
		parts = append(parts, counted(int(u.Repositories), "repository"))
	}
	if u.Roots > 0 {
		parts = append(parts, counted(int(u.Roots), "root event"))
	}
	if u.Authors > 0 {
		parts = append(parts, "deletions by "+counted(int(u.Authors), "author"))
	}
	return strings.Join(parts, " and ")
}

// learntText says in short what a relay can do.
func learntText(l *relaysync.Learnt) string {
	var parts []string
	if l.Negentropy != "unknown" {
		parts = append(parts, "negentropy "+l.Negentropy)
	}
	for _, limit := range []struct {
		name string
		n    uint32
	}{{"subscriptions", l.Subscriptions}, {"filters", l.Filters}, {"values", l.Values}, {"events", l.Limit}, {"message bytes", l.Message}, {"messages a minute", l.Pace}} {
		if limit.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", limit.n, limit.name))
		}
	}
	if l.Auth {
		parts = append(parts, "authentication")
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
