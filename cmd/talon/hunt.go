package main

import (
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
	cmd := &cobra.Command{
		Use:   "hunt",
		Short: "See and hurry the hunt for git data of a running relay",
		Long: `See and hurry the hunt for git data of a running relay.

An event that names git objects which are not here waits in purgatory, and the relay asks the git servers that the events of
the repository name. How often it asks whom is the throttle's to say (talon plugin list).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return errors.New("no command was given")
		},
	}
	cmd.AddCommand(huntStatusCommand(), huntNowCommand())
	return cmd
}

func huntStatusCommand() *cobra.Command {
	var asJSON bool
	var limit int
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List what is searched for, and how git servers are treated",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write everything that is known, as JSON")
	cmd.Flags().IntVar(&limit, "limit", 50, "`number` of repositories and of domains")
	return operating(cmd, func(cmd *cobra.Command, server *admin.Client, _ []string) error {
		status, err := server.Hunt(cmd.Context(), limit)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), status)
		}
		return writeHunt(cmd.OutOrStdout(), &status, time.Now())
	})
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
	if a, ok := host.ParseAddress(text); ok && a.D != "" {
		return a.String(), a.D, nil
	}
	npub, d, ok := strings.Cut(text, "/")
	if !ok {
		if text == "" {
			return "", "", errors.New("the identifier is empty")
		}
		return "", text, nil
	}
	key, err := nip19.DecodeNpub(npub)
	if err != nil {
		return "", "", fmt.Errorf("the repository %.80q is wrong: want an identifier, npub/identifier, or 30617:pubkey:identifier", text)
	}
	if d = strings.TrimSuffix(d, ".git"); d == "" {
		return "", "", errors.New("the identifier is empty")
	}
	return host.Address{Kind: 30617, PubKey: key, D: d}.String(), d, nil
}

// writeHunt writes a line for each repository and each domain. Below a line stands
// what was said last.
func writeHunt(w io.Writer, s *gitfetch.Status, now time.Time) error {
	if s.Waiting == 0 {
		if _, err := fmt.Fprintln(w, "nothing waits for git data"); err != nil {
			return err
		}
	} else {
		if _, err := fmt.Fprintf(w, "%s waiting for git data, %s under way\n\n", counted(s.Waiting, "repository"), counted(s.Requests, "request")); err != nil {
			return err
		}
		t := newTable(w)
		t.row("REPOSITORY", "MISSING", "ROUNDS", "NEXT", "EXPIRES", "ASKING", "WAITS FOR", "LAST")
		for i := range s.Repositories {
			r := &s.Repositories[i]
			next := "now"
			if !r.Next.IsZero() {
				next = in(r.Next, now)
			}
			t.row(r.Identifier, r.Missing, r.Rounds, next, in(r.Expires, now), orNone(r.Asking), orNone(r.WaitsFor), lastText(r.Last, now))
		}
		if err := t.w.Flush(); err != nil {
			return err
		}
	}
	if err := writeRefused(w, s.Repositories); err != nil {
		return err
	}
	if len(s.Domains) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := newTable(w)
	t.row("DOMAIN", "HEALTH", "NOW", "LAST MINUTE", "ALL", "WAITING", "FAILURES", "NOT BEFORE", "LAST")
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

// writeRefused writes a line for each URL that is not asked.
func writeRefused(w io.Writer, list []gitfetch.RepositoryStatus) error {
	t := newTable(w)
	head := false
	for i := range list {
		for _, u := range list[i].Refused {
			if !head {
				fmt.Fprintln(t.w)
				t.row("REPOSITORY", "NOT ASKED", "REASON")
				head = true
			}
			t.row(list[i].Identifier, u.URL, u.Reason)
		}
	}
	return t.w.Flush()
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

// in says how long it is until a time.
func in(t, now time.Time) string {
	d := t.Sub(now)
	if d <= 0 {
		return "now"
	}
	return "in " + d.Round(time.Second).String()
}
