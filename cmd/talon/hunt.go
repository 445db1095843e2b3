package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/admin"
	"talon/host/gitfetch"
	"talon/sdk/nip19"
)

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
		Short: "List the searches for git data, and the state of git servers",
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
