package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/admin"
	"talon/host/cluster"
	"talon/host/config"
	"talon/host/gitfetch"
	"talon/host/relaysync"
	"talon/sdk/nip19"
)

// operating makes a command that asks the running server.
func operating(cmd *cobra.Command, do func(cmd *cobra.Command, server *admin.Client, args []string) error) *cobra.Command {
	loader := config.Flags(cmd.Flags(), config.Operating)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := loader.Load(os.LookupEnv)
		if err != nil {
			return err
		}
		server, err := runningServer(cfg)
		if err != nil {
			return err
		}
		switch err = do(cmd, server, args); {
		case errors.Is(err, admin.ErrNoServer):
			return noServer(err)
		case err != nil:
			// It may quote what a module says of itself.
			return errors.New(plain(err.Error()))
		}
		return nil
	}
	return cmd
}

// showing makes a command that asks the running server, and writes what it found as text, or as JSON.
func showing[T any](cmd *cobra.Command, usageJSON string,
	ask func(ctx context.Context, server *admin.Client, args []string) (T, error),
	write func(w io.Writer, found T, now time.Time) error,
) *cobra.Command {
	jsonFlag(cmd, usageJSON)
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		found, err := ask(cmd.Context(), server, args)
		if err != nil {
			return err
		}
		return printFound(cmd, found, func(w io.Writer) error { return write(w, found, time.Now()) })
	})
}

// everything is what --json is for where a table shows less.
const everything = "write everything that is known, as JSON"

// runningServer returns the server at the admin socket.
func runningServer(cfg *config.Config) (*admin.Client, error) {
	path := cfg.Admin()
	if path == "" {
		return nil, errors.New("the admin socket is off (option admin-socket): start the server with one")
	}
	return admin.Dial(path), nil
}

// noServer says what to do where nobody listens on the admin socket.
func noServer(err error) error {
	return fmt.Errorf("%w: start one with talon serve, or say with --data or --admin-socket where it is", err)
}

func huntCommand() *cobra.Command {
	return onlyHelps(&cobra.Command{
		Use:   "hunt",
		Short: "See and hurry the hunt for git data of a running relay",
		Long: `See and hurry the hunt for git data of a running relay.

An event that names git objects which are not here waits in purgatory, and the relay asks the git servers that the events of
the repository name. How often it asks whom is the throttle's to say (talon plugin list).`,
	}, huntStatusCommand(), huntNowCommand())
}

func huntStatusCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List what is searched for, and how git servers are treated",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "`number` of repositories and of domains")
	return showing(cmd, everything, func(ctx context.Context, server *admin.Client, _ []string) (*gitfetch.Status, error) {
		status, err := server.Hunt(ctx, limit)
		return &status, err
	}, writeHunt)
}

func huntNowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "now REPO",
		Short: "Search for the git data of a repository now",
		Long: `Search for the git data of a repository now. REPO is an identifier, npub/identifier, or 30617:pubkey:identifier: the search
is for all repositories of the identifier.

The limits of git servers hold all the same.`,
		Args: cobra.ExactArgs(1),
	}
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, args []string) error {
		repository, identifier, err := parseHunted(args[0])
		if err != nil {
			return err
		}
		return server.HuntNow(cmd.Context(), repository, identifier)
	})
}

// parseHunted returns the address of a repository, as far as it is known, and its
// identifier.
func parseHunted(text string) (repository, identifier string, err error) {
	if a, ok := parseRepository(text); ok {
		return a.String(), a.D, nil
	}
	npub, _, slash := strings.Cut(text, "/")
	switch _, err := nip19.DecodeNpub(npub); {
	case !slash && text != "":
		return "", text, nil
	case slash && err != nil:
		return "", "", fmt.Errorf("the repository %.80q is wrong: want an identifier, npub/identifier, or 30617:pubkey:identifier", text)
	}
	return "", "", errors.New("the identifier is empty")
}

// parseRepository reads npub/identifier, or 30617:pubkey:identifier.
func parseRepository(text string) (host.Address, bool) {
	if a, ok := host.ParseAddress(text); ok && a.D != "" {
		return a, true
	}
	npub, d, _ := strings.Cut(text, "/")
	d = strings.TrimSuffix(d, ".git")
	key, err := nip19.DecodeNpub(npub)
	return host.Address{Kind: host.KindAnnouncement, PubKey: key, D: d}, err == nil && d != ""
}

// writeHunt writes a line for each repository and each domain. Below a line stands
// what was said last.
func writeHunt(w io.Writer, s *gitfetch.Status, now time.Time) error {
	t := newTable(w)
	if s.Waiting == 0 {
		t.row("nothing waits for git data")
	} else {
		t.row(fmt.Sprintf("%s waiting for git data, %s under way", counted(s.Waiting, "repository"), counted(s.Requests, "request")))
		t.section("REPOSITORY", "MISSING", "ROUNDS", "NEXT", "EXPIRES", "ASKING", "WAITS FOR", "LAST")
		for i := range s.Repositories {
			r := &s.Repositories[i]
			next := "now"
			if !r.Next.IsZero() {
				next = in(r.Next, now)
			}
			t.row(r.Identifier, r.Missing, r.Rounds, next, in(r.Expires, now), orNone(r.Asking), orNone(r.WaitsFor), lastText(r.Last, now))
		}
	}
	t.refused(s.Repositories)
	if len(s.Domains) == 0 {
		return t.w.Flush()
	}
	t.section("DOMAIN", "HEALTH", "NOW", "LAST MINUTE", "ALL", "WAITING", "FAILURES", "NOT BEFORE", "LAST")
	for i := range s.Domains {
		d := &s.Domains[i]
		rest := "-"
		if d.NotBefore.After(now) {
			rest = in(d.NotBefore, now)
		}
		t.row(d.Domain, d.Health, d.InFlight, d.LastMinute, d.Requests, d.Waiting, d.Failures, rest, lastText(d.Last, now))
	}
	return t.w.Flush()
}

// refused writes a line for each URL that is not asked.
func (t table) refused(list []gitfetch.RepositoryStatus) {
	head := false
	for i := range list {
		for _, u := range list[i].Refused {
			if !head {
				t.section("REPOSITORY", "NOT ASKED", "REASON")
				head = true
			}
			t.row(list[i].Identifier, u.URL, u.Reason)
		}
	}
}

// lastText says how a request ended.
func lastText(r *gitfetch.Request, now time.Time) string {
	if r == nil {
		return "-"
	}
	text := r.Outcome + " " + ago(r.At, now)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

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
		Short: "Have a running server forget what has spoken against a relay",
		Long: `Have a running server forget what has spoken against a relay: failures, and how long it was to be left alone. If the relay is wanted, it is connected to at once.

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
	}{{"subscriptions", l.Subscriptions}, {"filters", l.Filters}, {"values", l.Values}, {"events", l.Limit}, {"message bytes", l.Message}} {
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

func clusterCommand() *cobra.Command {
	return onlyHelps(&cobra.Command{
		Use:   "cluster",
		Short: "Look at the nodes that serve one relay from one database of PostgreSQL",
	}, clusterStatusCommand())
}

func clusterStatusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes, what they do, and which has which role",
		Long: `Show the nodes, what they do, and which has which role.

It asks the database, so it may run anywhere. A node that has not renewed its session in time is lost; it is shown for a day.`,
		Example: `  talon cluster status --store /etc/talon/store
  talon cluster status --store /etc/talon/store --json`,
		Args: cobra.NoArgs,
	}
	jsonFlag(cmd, everything)
	return configured(cmd, config.Always, func(cmd *cobra.Command, cfg *config.Config, _ *slog.Logger, _ []string) error {
		url, err := cfg.Postgres()
		if err != nil {
			return err
		}
		if url == "" {
			return errors.New("option store names no database of PostgreSQL: with the file in the data folder, there is one node")
		}
		nodes, err := cluster.Nodes(cmd.Context(), url)
		if err != nil {
			return err
		}
		return printFound(cmd, nodes, func(w io.Writer) error { return writeNodes(w, nodes) })
	})
}

func writeNodes(w io.Writer, nodes []cluster.Node) error {
	t := newTable(w)
	t.row("node", "state", "address", "release", "roles", "up", "seen")
	for _, n := range nodes {
		state, roles := string(n.State), strings.Join(n.Roles, " ")
		if !n.Alive {
			state, roles = "lost", ""
		}
		up, seen := n.Seen.Sub(n.Started).Round(time.Second), n.Unseen.Round(100*time.Millisecond)
		t.row(n.Name, state, n.Address, n.Release, roles, up, fmt.Sprint(seen, " ago"))
	}
	return t.w.Flush()
}
