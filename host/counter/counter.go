// Package counter counts the events that clients send, by kind, author, address and the reason of a
// refusal. It writes a line to the log for each minute with many events or refusals, so that a wave
// of equal events leaves one line and not thousands.
//
// Invariants:
//
//  1. The memory is bounded for any senders: only the largest keys are remembered.
//  2. Counting waits only for other counts.
package counter

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/bound"
)

const (
	// A minute with fewer events and fewer refusals leaves no line.
	manyEvents   = 1000
	manyRefusals = 20

	remembered = 1000   // kinds, authors, addresses and reasons of a minute
	ofDay      = 10_000 // addresses of a day
	shown      = 3      // of each in a line
	maxReason  = 80     // bytes
)

// Ingest takes events.
type Ingest interface {
	Submit(ctx context.Context, it *host.Item) error
}

// Network is who sends events: an IPv4 address, or the /64 of an IPv6 address. A client has all
// addresses of its /64, and would be none of the largest if each counted by itself.
type Network struct{ netip.Prefix }

// networkOf returns the network of an address, also of loopback.
func networkOf(a netip.Addr) Network {
	if n := host.NetworkOf(a); n.IsValid() {
		return Network{n}
	}
	return Network{netip.PrefixFrom(a, a.BitLen())}
}

// String returns 192.0.2.1 or 2001:db8::/64.
func (n Network) String() string {
	if n.IsSingleIP() {
		return n.Addr().String()
	}
	return n.Prefix.String()
}

// Counter counts what passes through it to Ingest. Its methods may be called by many goroutines.
type Counter struct {
	next Ingest
	log  *slog.Logger
	now  func() time.Time

	mu         sync.Mutex // guards the fields below
	this, last *minute
	day        int64                  // since the epoch, of what follows
	bytes      bound.Largest[Network] // of accepted events
}

// minute is what came in a minute.
type minute struct {
	began           time.Time
	events, refused int64
	kinds           bound.Largest[host.Kind]
	authors         bound.Largest[host.PubKey]
	addresses       bound.Largest[Network]
	reasons         bound.Largest[string]
}

func newMinute(began time.Time) *minute {
	m := &minute{began: began}
	m.kinds.Size, m.authors.Size, m.addresses.Size, m.reasons.Size = remembered, remembered, remembered, remembered
	return m
}

func (m *minute) reset(began time.Time) {
	m.began, m.events, m.refused = began, 0, 0
	m.kinds.Reset()
	m.authors.Reset()
	m.addresses.Reset()
	m.reasons.Reset()
}

// New returns a counter in front of next.
func New(next Ingest, log *slog.Logger, now func() time.Time) *Counter {
	t := &Counter{next: next, log: log, now: now, this: newMinute(now()), last: newMinute(now())}
	t.bytes.Size = ofDay
	return t
}

// Submit passes an item on, and counts its verdict.
func (t *Counter) Submit(ctx context.Context, it *host.Item) error {
	done, e, from := it.Done, it.Event, Network{}
	if it.Source != nil && it.Source.Addr.IsValid() {
		from = networkOf(it.Source.Addr)
	}
	it.Done = func(v host.Verdict, err error) {
		if err == nil {
			t.count(e, from, v)
		}
		done(v, err)
	}
	return t.next.Submit(ctx, it)
}

func (t *Counter) count(e *host.Event, from Network, v host.Verdict) {
	today := t.now().Unix() / (24 * 60 * 60)
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.this
	m.events++
	m.kinds.Add(e.Kind, 1)
	m.authors.Add(e.PubKey, 1)
	if from.IsValid() {
		m.addresses.Add(from, 1)
	}
	if v.Code == host.Rejected || v.Code == host.ShadowRejected {
		m.refused++
		m.reasons.Add(strings.ToValidUTF8(v.Reason[:min(len(v.Reason), maxReason)], ""), 1)
		return
	}
	if t.day != today {
		t.day = today
		t.bytes.Reset()
	}
	if from.IsValid() && (v.Code == host.Stored || v.Code == host.Held) {
		t.bytes.Add(from, int64(len(e.JSON)))
	}
}

// Addresses returns the addresses with the highest number of accepted bytes of events since
// midnight UTC.
func (t *Counter) Addresses(limit int) []bound.Count[Network] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.day != t.now().Unix()/(24*60*60) {
		return nil
	}
	return t.bytes.Top(limit)
}

// Recent is what came in this minute and in the one before.
type Recent struct {
	Since           time.Time
	Events, Refused int64
	Kinds           []bound.Count[host.Kind]
	Authors         []bound.Count[host.PubKey]
	Addresses       []bound.Count[Network]
	Reasons         []bound.Count[string] // of refusals
}

// Recent returns what came lately, with at most limit keys of each sort.
func (t *Counter) Recent(limit int) Recent {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, b := t.last, t.this
	return Recent{
		Since: a.began, Events: a.events + b.events, Refused: a.refused + b.refused,
		Kinds: sumOf(&a.kinds, &b.kinds, limit), Authors: sumOf(&a.authors, &b.authors, limit),
		Addresses: sumOf(&a.addresses, &b.addresses, limit), Reasons: sumOf(&a.reasons, &b.reasons, limit),
	}
}

// sumOf returns the keys with the highest sums of two counts.
func sumOf[K comparable](a, b *bound.Largest[K], limit int) []bound.Count[K] {
	sum := bound.Largest[K]{Size: 2 * remembered}
	for _, of := range []*bound.Largest[K]{a, b} {
		for _, c := range of.Top(remembered) {
			sum.Add(c.Key, c.N)
		}
	}
	return sum.Top(limit)
}

// Run writes a line for each minute with many events or refusals, until ctx ends.
func (t *Counter) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.sum()
		case <-ctx.Done():
			return nil
		}
	}
}

// sum writes the line of a minute, if there is one, and begins the next minute.
func (t *Counter) sum() {
	t.mu.Lock()
	m := t.this
	many := m.events >= manyEvents || m.refused >= manyRefusals
	args := []any{
		"events", m.events, "refused", m.refused, "reasons", text(m.reasons.Top(shown)),
		"kinds", text(m.kinds.Top(shown)), "authors", text(m.authors.Top(shown)), "addresses", text(m.addresses.Top(shown)),
	}
	t.this, t.last = t.last, m
	t.this.reset(t.now())
	t.mu.Unlock()
	if many {
		t.log.Info("events of a minute", args...)
	}
}

// text returns keys with their counts, such as "1 × 300, 7 × 20".
func text[K comparable](list []bound.Count[K]) string {
	var b strings.Builder
	for i, c := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%v × %d", c.Key, c.N)
	}
	return b.String()
}
