package devnet

import (
	"context"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
	"talon/host/negentropy"
	"talon/host/relayclient"
)

// Comparison is the difference between the events that Talon has and those that it must
// have.
type Comparison struct {
	Expected int       // events that it is to have
	Lacks    []host.ID // of these
	Beside   []host.ID // that it has and is not to have
	LacksOf  []int     // by relay: events that the relay has and Talon lacks
	Repos    int       // repositories whose state is served, and so can be cloned
}

// Compare compares these events with those of a Talon (NIP-77), at the address that it
// serves on.
func (n *Net) Compare(ctx context.Context, address string) (Comparison, error) {
	expected := n.Expected()
	var b negentropy.Builder
	for id, at := range expected {
		b.Add(negentropy.Item{CreatedAt: uint64(max(0, at)), ID: id})
	}
	c := Comparison{Expected: len(expected), LacksOf: make([]int, len(n.Relays))}
	conn, err := relayclient.Dial(ctx, address, relayclient.Options{MessageBytes: 16 << 20})
	if err == nil {
		defer func() { _ = conn.Close() }()
		limits := negentropy.ClientLimits{IDs: 10_000_000, Rounds: 10_000}
		c.Lacks, c.Beside, err = conn.Reconcile(ctx, []byte("{}"), b.Build(), limits)
	}
	if err != nil {
		return c, fmt.Errorf("compare with Talon: %w", err)
	}
	c.Repos = len(n.Repositories())
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range c.Lacks {
		p := n.posts[id]
		if p == nil {
			continue // a relay may name what it likes
		}
		if p.event.Kind == 30618 {
			c.Repos--
		}
		for _, k := range p.relays {
			c.LacksOf[k]++
		}
	}
	return c, nil
}

// Watched reports whether a subscription at the relay is for such an event.
func (r *Relay) Watched(e *nostr.Event) bool {
	parsed, err := parse(e)
	return err == nil && r.backend.watched(&post{event: e, parsed: parsed})
}

// RelayStatus is the status of a relay.
type RelayStatus struct {
	URL           string `json:"url"`
	Profile       string `json:"profile"`
	Negentropy    bool   `json:"negentropy"`
	Up            bool   `json:"up"`
	Events        int    `json:"events"`
	Connections   int    `json:"connections"`
	Subscriptions int    `json:"subscriptions"` // open
	Filters       int    `json:"filters"`
	Requests      int64  `json:"requests"`    // filters of REQs
	Comparisons   int64  `json:"comparisons"` // NEG-OPENs
	Refused       int64  `json:"refused"`     // messages
	Dropped       int64  `json:"dropped"`     // connections that broke
	Sent          int64  `json:"sent_bytes"`
}

// Status returns the status of the relay.
func (r *Relay) Status() RelayStatus {
	s := RelayStatus{
		URL: r.URL, Profile: r.Profile, Negentropy: r.Negentropy, Dropped: r.exchange.dropped.Load(), Sent: r.exchange.sent.Load(),
	}
	s.Up, s.Connections = r.exchange.state()
	r.backend.fill(&s)
	return s
}

// GitStatus is the status of a git server.
type GitStatus struct {
	URL    string `json:"url"`
	Now    string `json:"now"`    // works, or how it fails
	Served int64  `json:"served"` // requests
	Failed int64  `json:"failed"`
}

// Status returns the status of the git server.
func (g *GitServer) Status() GitStatus {
	f, _ := g.fault(time.Now())
	return GitStatus{URL: g.URL, Now: f.String(), Served: g.served.Load(), Failed: g.failed.Load()}
}
