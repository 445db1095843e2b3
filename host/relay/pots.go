package relay

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"

	"talon/host/bound"
	"talon/host/wire"
)

// pots are the limits that all clients share.
type pots struct {
	conns    *bound.Pot
	subs     *bound.Pot
	values   *bound.Pot // of the filters of subscriptions
	sessions *bound.Pot
	records  *bound.Pot // of negentropy sessions, each counted for itself
	live     *bound.Flow
}

// recordsFactor is how many times the records in memory may be held by sessions: those that
// ask for the same share one snapshot.
const recordsFactor = 8

// liveBurst is how long a network may get live events at the rate of its share before it waits.
const liveBurst = 4 * time.Second

func newPots(l *Limits, now func() time.Time) pots {
	const loses = "the network that holds most loses the connection that was idle longest"
	const ends = "the network that holds most loses the session that was idle longest"
	return pots{
		conns:    bound.NewPot(bound.Spec{Name: "websockets", Unit: "connections", Total: int64(l.Connections), Known: bound.KnownPart(int64(l.Connections)), Yields: loses}),
		subs:     bound.NewPot(bound.Spec{Name: "subscriptions", Unit: "subscriptions", Total: int64(l.SubscriptionsTotal), Known: bound.KnownPart(int64(l.SubscriptionsTotal)), Yields: loses}),
		values:   bound.NewPot(bound.Spec{Name: "values of subscriptions", Unit: "values", Total: int64(l.ValuesTotal), Known: bound.KnownPart(int64(l.ValuesTotal)), Yields: loses}),
		sessions: bound.NewPot(bound.Spec{Name: "negentropy sessions", Unit: "sessions", Total: int64(l.NegSessionsTotal), Known: bound.KnownPart(int64(l.NegSessionsTotal)), Yields: ends}),
		records: bound.NewPot(bound.Spec{
			Name: "records of negentropy sessions", Unit: "records", Total: recordsFactor * int64(l.NegRecordsTotal), Known: bound.KnownPart(recordsFactor * int64(l.NegRecordsTotal)), Network: int64(l.NegRecordsTotal), Yields: ends,
		}),
		live: bound.NewFlow(bound.Spec{
			Name: "live events", Unit: "bytes a second", Network: l.LiveBytes, Yields: "the network that had its share waits",
		}, liveBurst, now),
	}
}

// Bounds returns the limits that all clients share, for the table of bounds.
func (r *Relay) Bounds() []bound.Spec {
	p := &r.pots
	return []bound.Spec{p.conns.Spec(), p.subs.Spec(), p.values.Spec(), p.sessions.Spec(), p.records.Spec(), p.live.Spec(), r.reassembly.spec}
}

// parts are what a connection holds of the pots.
type parts struct {
	conn, subs, values *bound.Hold
	yielded            atomic.Bool // others need the place
}

func (p *parts) release() {
	for _, h := range []*bound.Hold{p.conn, p.subs, p.values} {
		if h != nil {
			h.Release()
		}
	}
}

// holder returns the holder of a connection in the pots. REQUIRES: the reader of the connection, or
// it is not open yet.
func (c *conn) holder() bound.Holder {
	if known := c.relay.deps.Holder; known != nil {
		return known(c.source.Addr, c.authed)
	}
	return bound.Holder{Addr: c.source.Addr}
}

// recognise has the parts of a connection be those of a known person, once it has proven a key.
func (c *conn) recognise() {
	by := c.holder()
	for _, h := range []*bound.Hold{c.parts.conn, c.parts.subs, c.parts.values} {
		if h != nil {
			h.Recognise(by)
		}
	}
}

// takeParts takes what a connection holds of the pots from its beginning.
func (r *Relay) takeParts(c *conn) refusal {
	var err error
	if c.parts.conn, err = r.pots.conns.Acquire(c.holder(), 1, c.yield); err == nil {
		c.parts.subs, err = r.pots.subs.Acquire(c.holder(), 0, c.yield)
	}
	if err == nil {
		c.parts.values, err = r.pots.values.Acquire(c.holder(), 0, c.yield)
	}
	switch {
	case errors.Is(err, bound.ErrShare):
		return tooManyPerNetwork
	case err != nil:
		return tooMany
	}
	return admitted
}

// yield closes the connection, for others need what it holds. It may not be open yet.
func (c *conn) yield() {
	c.parts.yielded.Store(true)
	c.relay.mu.Lock()
	_, open := c.relay.conns[c]
	c.relay.mu.Unlock()
	if open {
		c.closeWith(errYielded)
	}
}

// takeSubscription takes a place for a subscription, or says why there is none. One that
// replaces another has its place.
func (c *conn) takeSubscription(old *subscription) (refused string) {
	h := c.parts.subs
	h.Touch()
	if old != nil {
		return ""
	}
	switch err := h.Grow(1); {
	case errors.Is(err, bound.ErrShare):
		return "error: there is no room for more subscriptions of your network, close one or try again later"
	case err != nil:
		return "error: the relay has no room for more subscriptions, try again later"
	}
	return ""
}

// takeValues takes room for a number of values more, or says why there is none.
func (c *conn) takeValues(more int) (refused string) {
	h := c.parts.values
	h.Touch()
	switch err := h.Grow(int64(more)); {
	case more <= 0:
	case errors.Is(err, bound.ErrShare):
		return fmt.Sprintf("error: the subscriptions of your network may have %d values in all, close one or try again later", c.relay.pots.values.Spec().Network)
	case err != nil:
		return "error: the relay has no room for the values of more subscriptions, try again later"
	}
	return ""
}

// freeSubscription gives the place of a subscription back.
func (c *conn) freeSubscription() { _ = c.parts.subs.Grow(-1) }

// takeSession takes a place for a negentropy session, or says why there is none.
func (c *conn) takeSession(s *negSession) (refused string) {
	var err error
	s.hold, err = c.relay.pots.sessions.Acquire(c.holder(), 1, func() { c.yieldSession(s) })
	switch {
	case errors.Is(err, bound.ErrShare):
		return "blocked: your network has too many negentropy sessions, close one first"
	case err != nil:
		return "blocked: the relay has too many negentropy sessions, try again later"
	}
	c.relay.metrics.negSessions.Inc()
	return ""
}

// takeRecords counts the records of a session.
func (c *conn) takeRecords(s *negSession, n int) (refused string) {
	var err error
	s.records, err = c.relay.pots.records.Acquire(c.holder(), int64(n), func() { c.yieldSession(s) })
	switch {
	case errors.Is(err, bound.ErrShare):
		return "blocked: your network reconciles too many records at once, close a session first"
	case err != nil:
		return "blocked: too many records are being reconciled, try again later"
	}
	return ""
}

// freeSession gives back what a session holds of the pots.
func (c *conn) freeSession(s *negSession) {
	if s.records != nil {
		s.records.Release()
	}
	s.hold.Release()
	c.relay.metrics.negSessions.Dec()
}

// yieldSession ends a session, for others need its place. The client gets its NEG-ERR. It may
// run in any goroutine.
func (c *conn) yieldSession(s *negSession) {
	const reason = "blocked: others need the place of this session, which was idle longest, try again later"
	c.mu.Lock()
	s.yielded = true
	open := false
	for id, other := range c.neg {
		if other == s {
			open = true
			c.dropSession(id, reason)
		}
	}
	c.mu.Unlock()
	if open {
		c.endSession(s)
	}
}

// dropSession takes a session out of the connection, and queues its NEG-ERR. The caller ends
// it. REQUIRES: c.mu.
func (c *conn) dropSession(id, reason string) {
	delete(c.neg, id)
	c.relay.metrics.negRefused.Inc()
	if c.push(outgoing{op: ws.OpText, body: wire.AppendNegErr(nil, id, reason)}) {
		c.relay.metrics.out[outNegErr].Inc()
		c.wakeWriter()
	}
}
