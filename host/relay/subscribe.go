package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/wire"
)

// phase is where a subscription is in its life.
type phase uint8

const (
	loading phase = iota // its stored answer is on the way: live events are held back
	live
	dead // nothing may be sent
)

// subscription is a REQ that has not ended.
type subscription struct {
	conn    *conn
	id      string
	prefix  []byte // what stands before an event
	watches []watch
	values  int
	sum     uint64 // equal for equal filters; see checksum
	key     string // the same, and only for these; empty until countEqual needs it

	stamp uint64 // belongs to the publisher: the last event looked at

	// The connection's mutex guards the fields below.
	phase  phase
	held   []host.Published // while loading
	missed bool             // events may be lacking: CLOSED comes in place of EOSE

	// answered belongs to the connection's goroutine while the subscription is
	// loading; then the mutex guards it.
	answered answered
}

// req starts a subscription: stored events, EOSE, then live ones.
func (c *conn) req(ctx context.Context, id string, filters []host.Filter) error {
	began := time.Now()
	s, refused := c.subscribe(id, filters)
	if refused != "" {
		c.refuse(id, refused)
		return nil
	}
	stored := c.stored(filters)
	hint := wire.HintFinish
	var sel host.Selection
	if len(stored) > 0 {
		var err error
		if sel, hint, err = c.selectPage(ctx, stored); err != nil {
			c.refuse(id, c.storeFailed(ctx, "select events", err))
			return nil
		}
		c.spent.charge(int64(len(sel.Rows)))
		s.answered.by(&sel, s.watches)
		if err := c.sendRows(ctx, s, sel.Rows); err != nil {
			if errors.Is(err, errEnded) {
				return err
			}
			c.refuse(id, c.storeFailed(ctx, "fetch events", err))
			return nil
		}
	}
	if len(stored) < len(s.watches) {
		hint = "" // a filter asks for nothing stored
	}
	if !c.goLive(s, hint) {
		c.refuse(id, eventsMissed)
		return nil
	}
	ended := time.Now()
	c.relay.metrics.reqTime.Observe(ended.Sub(began).Seconds())
	c.relay.slowest.note(began, ended, c.source.Addr, "REQ", filters...)
	return nil
}

// goLive sends what was published while the subscription was loading, and EOSE with a hint of
// NIP-67. It reports false, and does nothing, if the subscription must end.
func (c *conn) goLive(s *subscription, hint string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.missed {
		return false
	}
	c.freeHeld(s)
	for i := range s.held {
		c.deliverLocked(s, &s.held[i], nil)
	}
	s.held = nil
	s.phase = live
	s.answered.forget(c.relay.publishedSeq.Load())
	if c.push(outgoing{op: ws.OpText, body: wire.AppendEOSE(nil, s.id, hint)}) {
		c.relay.metrics.out[outEOSE].Inc()
		c.wakeWriter()
	}
	return true
}

// freeHeld takes what the subscription holds back out of the account. REQUIRES:
// c.mu.
func (c *conn) freeHeld(s *subscription) {
	for i := range s.held {
		c.out.held -= len(s.held[i].Event.JSON) + perItem
	}
}

// subscribe registers a subscription, in place of one with the same id, or says why
// not.
func (c *conn) subscribe(id string, filters []host.Filter) (*subscription, string) {
	l := &c.relay.cfg.Limits
	id = strings.Clone(id) // the message is not kept
	old := c.subs[id]
	if most := lower(l.Subscriptions, c.relay.cfg.Clients().Subscriptions); old == nil && len(c.subs) >= most {
		if most < l.Subscriptions {
			c.relay.metrics.limited[limitedSubscriptions].Inc()
			return nil, fmt.Sprintf("error: the relay is busy and takes %d subscriptions of a connection now, try again later", most)
		}
		return nil, fmt.Sprintf("error: too many subscriptions on this connection, close one of the %d first", most)
	}
	s := &subscription{
		conn:   c,
		id:     id,
		prefix: wire.AppendEventPrefix(nil, id),
	}
	values := c.values
	if old != nil {
		values -= old.values
	}
	for i := range filters {
		s.values += host.FilterValues(filters[i])
	}
	if values+s.values > l.Values {
		return nil, fmt.Sprintf("error: the subscriptions of this connection may have %d values in all, close one first", l.Values)
	}
	if c.countEqual(s, old, filters) >= l.EqualSubscriptions {
		return nil, fmt.Sprintf("restricted: this connection has %d subscriptions with the same filters, close one first", l.EqualSubscriptions)
	}
	if refused := c.takeSubscription(old); refused != "" {
		return nil, refused
	}
	if refused := c.takeValues(values + s.values - c.values); refused != "" {
		if old == nil {
			c.freeSubscription()
		}
		return nil, refused
	}
	s.answered.done = c.relay.publishedSeq.Load()
	c.relay.index.add(s, old, filters)
	if c.subs == nil {
		c.subs = make(map[string]*subscription)
	}
	c.subs[id] = s
	c.values = values + s.values
	if old == nil {
		c.relay.metrics.subs.Inc()
	}
	return s, ""
}

// countEqual returns how many other subscriptions of the connection have the same filters. It
// compares filters only if enough subscriptions have the same sum.
func (c *conn) countEqual(s, old *subscription, filters []host.Filter) (n int) {
	s.sum = checksum(filters)
	similar := func(other *subscription) bool { return other != old && other.sum == s.sum }
	for _, other := range c.subs {
		if similar(other) {
			n++
		}
	}
	if n < c.relay.cfg.Limits.EqualSubscriptions {
		return n
	}
	n = 0
	s.key = filterKey(filters)
	for _, other := range c.subs {
		if !similar(other) {
			continue
		}
		if other.key == "" {
			list := make([]host.Filter, len(other.watches))
			for i := range other.watches {
				list[i] = other.watches[i].filter
			}
			other.key = filterKey(list)
		}
		if other.key == s.key {
			n++
		}
	}
	return n
}

var checksumSeed = maphash.MakeSeed()

// checksum returns a number that is the same for filters that ask for the same, in any order.
// Clients cannot choose it. Filters that match nothing do not count.
func checksum(filters []host.Filter) (sum uint64) {
	for i := range filters {
		f := &filters[i]
		if f.Empty() {
			continue
		}
		n := uint64(1)
		for _, id := range f.IDs {
			n += maphash.Bytes(checksumSeed, id[:])
		}
		for _, author := range f.Authors {
			n += maphash.Bytes(checksumSeed, author[:])
		}
		for _, kind := range f.Kinds {
			n += maphash.Comparable(checksumSeed, kind)
		}
		for _, t := range f.Tags {
			for _, v := range t.Values {
				n += maphash.String(checksumSeed, v)
			}
		}
		sum = max(sum, n) // a filter counts once
	}
	return sum
}

// filterKey returns a key that is the same for filters that ask for the same, in any order.
// Filters that match nothing do not count.
func filterKey(filters []host.Filter) string {
	var keys []string
	for i := range filters {
		if !filters[i].Empty() {
			keys = append(keys, filters[i].Key())
		}
	}
	slices.Sort(keys)
	h := sha256.New()
	for _, key := range slices.Compact(keys) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(key), key)
	}
	return string(h.Sum(nil))
}

// unsubscribe ends a subscription, if there is one with this id: when it returns,
// nothing more is queued for it.
func (c *conn) unsubscribe(id string) {
	s := c.subs[id]
	if s == nil {
		return
	}
	delete(c.subs, id)
	c.values -= s.values
	_ = c.takeValues(-s.values)
	c.kill(s)
	c.relay.index.remove(s)
	c.freeSubscription()
	c.relay.metrics.subs.Dec()
}

// kill lets a subscription get nothing more.
func (c *conn) kill(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.phase = dead
	c.freeHeld(s)
	s.held = nil
}

func (c *conn) unsubscribeAll() {
	for id := range c.subs {
		c.unsubscribe(id)
	}
}

// refuse sends CLOSED, and ends what lived under the id.
func (c *conn) refuse(id, reason string) {
	c.unsubscribe(id)
	c.send(outClosed, wire.AppendClosed(nil, id, reason))
}

// Publish sends events to the subscriptions that match. It is called after each
// commit, in the order of commits, and waits for no client.
//
// A panic in what concerns one connection ends that connection: its client learns that it may have
// missed something. All others get their events.
func (r *Relay) Publish(events []host.Published) {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	if r.contain(func() { r.snapshots.published(events) }) {
		r.contain(r.snapshots.forgetAll) // they may lack something
	}

	r.batch++
	last := int64(0)
	r.pendingWake = r.pendingWake[:0]
	for i := range events {
		p := &events[i]
		last = max(last, p.Seq)
		if p.Event.Kind == host.KindAuth {
			continue // NIP-42: never broadcast
		}
		if p.Changed {
			r.contain(func() { r.endReconciliations(p.Event) })
		}
		r.contain(func() { r.publish(p) })
	}
	r.publishedSeq.Store(max(last, r.publishedSeq.Load()))

	// Each connection is woken once, so that what a batch has for it goes out in
	// one piece.
	for i, c := range r.pendingWake {
		c.wake()
		r.pendingWake[i] = nil
	}
}

// publish queues one event for the subscriptions that match. REQUIRES: r.publishing.
func (r *Relay) publish(p *host.Published) {
	r.index.mu.RLock()
	defer r.index.mu.RUnlock()
	if p.Event.Audience != nil {
		r.publishWithheld(p)
		return
	}
	r.stamp++
	var text *liveText
	if n := r.cfg.Limits.CompressFrom; n > 0 && len(p.Event.JSON) >= n || len(p.Event.JSON) >= writeSize {
		text = &liveText{json: p.Event.JSON}
	}
	r.index.match(p.Event, func(w *watch) {
		defer w.sub.conn.failed()
		s := w.sub
		if s.stamp == r.stamp || !w.matches(p.Event, r.index.words) {
			return
		}
		s.stamp = r.stamp
		c := s.conn
		if c.deliver(s, p, text) && c.wokenBatch != r.batch {
			c.wokenBatch = r.batch
			r.pendingWake = append(r.pendingWake, c)
		}
	})
}

// wake starts the flusher if there is something to write.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeWriter()
}

// deliver queues a live event, and reports whether the connection must be woken. A connection that ends gets
// no more: its goroutine may still have to remove its subscriptions.
func (c *conn) deliver(s *subscription, p *host.Published, text *liveText) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return false
	}
	if s.phase != loading {
		return s.phase == live && c.deliverLocked(s, p, text)
	}
	n := len(p.Event.JSON) + perItem
	if !c.fits(n) {
		return false
	}
	s.held = append(s.held, *p)
	c.out.held += n
	return false
}

// deliverLocked queues an event unless the stored answer has it. The text is that of a long
// event, shared by all who get it, or nil. REQUIRES: c.mu.
func (c *conn) deliverLocked(s *subscription, p *host.Published, text *liveText) bool {
	if s.answered.has(p) {
		return false
	}
	if !c.push(outgoing{prefix: s.prefix, body: p.Event.JSON, live: text}) {
		return false
	}
	c.relay.metrics.live.Inc()
	c.relay.metrics.out[outEvent].Inc()
	if c.out.queued > writeSize {
		c.wakeWriter()
	}
	return true
}
