package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"talon/cmd/internal/devnet"
)

// writeNetResult writes the last look as one JSON object.
func writeNetResult(w io.Writer, n *devnet.Net, last netLook) error {
	type relay struct {
		devnet.RelayStatus
		Missing  int   `json:"missing"`            // events that it has and Talon lacks
		Complete *bool `json:"complete,omitempty"` // Talon says that nothing is open there; only with --serve
	}
	result := struct {
		InLine       bool               `json:"in_line"` // Talon has exactly what it is to have
		Seconds      float64            `json:"seconds"`
		Expected     int                `json:"expected"`
		Missing      int                `json:"missing"`
		MissingKinds map[int]int        `json:"missing_by_kind"`
		Others       int                `json:"others"` // events that Talon has and is not to have
		Repositories int                `json:"repositories"`
		WrongClaims  int                `json:"wrong_claims"`    // relays that Talon calls complete, and has lacked an event of for ten looks
		Error        string             `json:"error,omitempty"` // Talon did not answer
		Relays       []relay            `json:"relays"`
		Git          []devnet.GitStatus `json:"git"`
	}{
		InLine: last.quiet > 0, Seconds: time.Since(last.began).Seconds(), Expected: last.Expected, Missing: len(last.Lacks),
		MissingKinds: lackedKinds(n, last.Comparison), Others: len(last.Beside), Repositories: last.Repos, Git: []devnet.GitStatus{},
		WrongClaims: last.said.wrong,
	}
	if last.failed != nil {
		result.Error = last.failed.Error()
	}
	for i, r := range n.Relays {
		s := relay{RelayStatus: r.Status()}
		if last.failed == nil && i < len(last.LacksOf) {
			s.Missing = last.LacksOf[i]
		}
		if complete := last.said.complete[r.URL]; last.said.asked {
			s.Complete = &complete
		}
		result.Relays = append(result.Relays, s)
	}
	for _, g := range n.Git {
		result.Git = append(result.Git, g.Status())
	}
	if err := json.NewEncoder(w).Encode(result); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// netTable shows a network: on a terminal a table that stays in its place, elsewhere a
// line for each look.
type netTable struct {
	w     io.Writer
	live  bool
	began time.Time
	lines int // of the last table
}

func newNetTable(w io.Writer) *netTable { return &netTable{w: w, live: terminal(w), began: time.Now()} }

// tableRows bounds the relays and the git servers that a table has: a terminal has few
// lines.
const tableRows = 24

func (t *netTable) show(n *devnet.Net, c devnet.Comparison, said claimMoment, err error) {
	network, talon := t.summary(n, c, err)
	if said.asked {
		complete := 0
		for _, r := range n.Relays {
			if said.complete[r.URL] {
				complete++
			}
		}
		talon += fmt.Sprintf(", calls %d relays complete", complete)
		if said.wrong > 0 {
			talon += fmt.Sprintf(" (%d of them wrongly)", said.wrong)
		}
	}
	if !t.live {
		fmt.Fprintf(t.w, "%s; %s\n", network, talon)
		return
	}
	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", t.lines)
	}
	b.WriteString("\x1b[?7l") // a line that is too long is cut: folded, it would be two
	fmt.Fprintf(&b, "%-26s %-14s %5s %4s %8s %8s %5s %5s %7s %9s\n", "relay", "profile", "", "neg", "events", "missing", "conns", "subs", "filters", "sent kB")
	for i, r := range n.Relays[:min(len(n.Relays), tableRows)] {
		s := r.Status()
		fmt.Fprintf(&b, "%-26s %-14s %5s %4s %8d %8s %5d %5d %7d %9d\n", s.URL, s.Profile, map[bool]string{true: "up", false: "DOWN"}[s.Up],
			map[bool]string{true: "yes", false: "no"}[s.Negentropy], s.Events, missing(c, i, err), s.Connections, s.Subscriptions, s.Filters, s.Sent/1000)
	}
	if more := len(n.Relays) - tableRows; more > 0 {
		fmt.Fprintf(&b, "and %d more relays\n", more)
	}
	for _, g := range n.Git[:min(len(n.Git), tableRows)] {
		s := g.Status()
		fmt.Fprintf(&b, "%-26s %5s   git: %d requests served, %d failed\n", s.URL, s.Now, s.Served, s.Failed)
	}
	if more := len(n.Git) - tableRows; more > 0 {
		fmt.Fprintf(&b, "and %d more git servers\n", more)
	}
	fmt.Fprintf(&b, "%s\n       %s\n\x1b[?7h", network, talon)
	t.lines = strings.Count(b.String(), "\n")
	fmt.Fprint(t.w, b.String())
}

// missing is what Talon misses of a relay, unless that is not known.
func missing(c devnet.Comparison, relay int, err error) string {
	if err != nil {
		return "?"
	}
	return fmt.Sprint(c.LacksOf[relay])
}

// summary says how the network is, and what Talon has of it.
func (t *netTable) summary(n *devnet.Net, c devnet.Comparison, err error) (network, talon string) {
	down, connections, events, limit := 0, 0, 0, 0
	for _, r := range n.Relays {
		s := r.Status()
		if !s.Up {
			down++
		}
		connections += s.Connections
		events += s.Events
		limit = max(limit, s.Subscriptions)
	}
	failing := 0
	for _, g := range n.Git {
		if g.Status().Now != "works" {
			failing++
		}
	}
	at := time.Since(t.began).Round(time.Second)
	network = fmt.Sprintf("%5v  %d relays (%d down) with %d events, %d connections and up to %d subscriptions, %d git servers (%d failing)", at, len(n.Relays), down, events, connections, limit, len(n.Git), failing)
	if err != nil {
		return network, fmt.Sprintf("Talon does not answer: %v", err)
	}
	return network, fmt.Sprintf("Talon has %d of %d events, %d others, %d repositories in line", c.Expected-len(c.Lacks), c.Expected, len(c.Beside), c.Repos)
}
