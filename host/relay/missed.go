package relay

import (
	"slices"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/wire"
)

// eventsMissed is the reason of CLOSED after a gap.
const eventsMissed = "error: the relay may have missed events for this subscription, subscribe again"

// Missed ends the subscriptions for which the relay may have missed events that other nodes
// published. After a gap the relay reads the stored events again. It learns nothing of ephemeral
// events, and nothing of versions that were replaced since. Subscriptions to regular kinds alone
// miss nothing, and go on. Negentropy sessions end, since their sets may have events that are gone.
func (r *Relay) Missed() {
	r.publishing.Lock()
	defer r.publishing.Unlock()
	ended := 0
	r.contain(func() { ended = r.endSubscriptions() })
	r.contain(r.snapshots.forgetAll)
	for _, c := range r.all() {
		for _, s := range c.dropSessions(func(*host.Filter) bool { return true }) {
			c.endSession(s)
		}
	}
	r.cfg.Log.Warn("events of other nodes were missed: subscriptions that may lack one are closed", "subscriptions", ended)
}

// endSubscriptions ends the subscriptions that a gap concerns, and returns how many. The index
// stays locked: no client can put another subscription in the place of one of them meanwhile.
func (r *Relay) endSubscriptions() (ended int) {
	r.index.mu.RLock()
	defer r.index.mu.RUnlock()
	r.index.each(func(s *subscription) {
		defer s.conn.failed()
		if slices.ContainsFunc(s.watches, func(w watch) bool { return mayLack(&w.filter) }) && s.conn.endMissed(s) {
			ended++
		}
	})
	return ended
}

// mayLack reports whether a filter matches events that are not in the store for ever.
func mayLack(f *host.Filter) bool {
	return f.Kinds == nil || slices.ContainsFunc(f.Kinds, func(k host.Kind) bool { return k.Class() != host.Regular })
}

// each calls yield once with each subscription that can match something. REQUIRES: x.mu for
// reading.
func (x *index) each(yield func(*subscription)) {
	seen := make(map[*subscription]struct{}, x.subs)
	for _, b := range x.buckets {
		for _, p := range b.list {
			if _, twice := seen[p.watch.sub]; !twice {
				seen[p.watch.sub] = struct{}{}
				yield(p.watch.sub)
			}
		}
	}
}

// endMissed sends CLOSED for a subscription, and reports whether it did. One whose stored answer is
// on its way ends with that answer. The connection's goroutine gives the place back later.
func (c *conn) endMissed(s *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s.phase {
	case loading:
		s.missed = true
		return true
	case live:
		s.phase = dead
		c.lacking.Store(true)
		if c.push(outgoing{op: ws.OpText, body: wire.AppendClosed(nil, s.id, eventsMissed)}) {
			c.relay.metrics.out[outClosed].Inc()
			c.wakeWriter()
		}
		return true
	}
	return false
}

// forgetMissed forgets the subscriptions that endMissed has ended.
func (c *conn) forgetMissed() {
	if !c.lacking.CompareAndSwap(true, false) {
		return
	}
	for id, s := range c.subs {
		if c.isDead(s) {
			c.unsubscribe(id)
		}
	}
}

func (c *conn) isDead(s *subscription) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.phase == dead
}
