package loop

import (
	"cmp"
	"slices"

	"talon/sdk/abi"
)

// counts are numbers of relays.
type counts struct{ used, dialing, tracked, connected, dead int }

func (c *counts) add(o counts, sign int) {
	c.used += sign * o.used
	c.dialing += sign * o.dialing
	c.tracked += sign * o.tracked
	c.connected += sign * o.connected
	c.dead += sign * o.dead
}

// counts returns what one relay adds to those of the loop.
func (r *relay) counts() (c counts) {
	set := func(n *int, yes bool) {
		if yes {
			*n = 1
		}
	}
	set(&c.used, r.conn != 0)
	set(&c.dialing, r.conn != 0 && !r.up)
	set(&c.tracked, r.kept())
	set(&c.connected, r.up)
	set(&c.dead, r.state.Status == StatusDead)
	return c
}

// provenTime is how long a connection that brings something is up before the failures
// before it are forgotten: a relay may accept connections, and drop them.
const provenTime = 30_000

// update counts a relay again, and schedules what is to be done for it: an attempt, or
// proof that it works. Whatever changes a field that counts or that moves the schedule
// calls it. So a turn costs what has changed, however many relays there are.
func (s *Loop) update(r *relay) {
	s.counts.add(r.counted, -1)
	r.counted = r.counts()
	s.counts.add(r.counted, 1)
	if r.queued {
		r.queued = false
		s.due = slices.DeleteFunc(s.due, func(o *relay) bool { return o == r })
	}
	at := int64(0) // nothing is
	switch {
	case r.conn == 0 && r.kept():
		at = max(r.retryAt, 1)
	case r.up && r.productive && !r.proven:
		at = r.since + provenTime
	}
	s.schedule.set(r.url, at)
}

// onProductive notes that a connection has brought something.
func (s *Loop) onProductive(r *relay) {
	if !r.productive {
		r.productive = true
		s.update(r)
	}
}

// dialAll begins attempts where they are due and the limits allow: bootstrap relays
// first, then by priority, then those that failed least. It forgets the failures of
// relays that work.
func (s *Loop) dialAll() {
	for t := s.schedule.due(s.clock); t != nil; t = s.schedule.due(s.clock) {
		r := s.relays[t.id]
		switch {
		case r == nil:
		case r.up:
			r.proven = true
			works := ConnResult{Outcome: OutcomeOK, Productive: true, Took: s.clock - r.since}
			s.setState(r, s.deps.Health.Report(r.url, works, s.clock))
		default:
			at, _ := slices.BinarySearchFunc(s.due, r, inOrder)
			s.due, r.queued = slices.Insert(s.due, at, r), true
		}
	}
	for s.mayDial() {
		r := s.due[0]
		if wait := s.deps.Health.Allow(r.url, s.clock); wait > 0 {
			r.retryAt = s.clock + wait
			s.update(r)
			continue
		}
		s.dial(r)
	}
}

// inOrder says which of two relays is dialed first.
func inOrder(a, b *relay) int {
	return cmp.Or(
		first(a.bootstrap, b.bootstrap), cmp.Compare(b.priority, a.priority),
		cmp.Compare(a.state.Failures, b.state.Failures), cmp.Compare(a.url, b.url))
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// mayDial reports whether an attempt is due, and the limits allow it.
func (s *Loop) mayDial() bool {
	return len(s.due) > 0 && s.counts.used < s.cfg.Limits.Connections && s.counts.dialing < s.cfg.Limits.Dials
}

// informedFor is how long what a relay says of itself counts, in milliseconds.
const informedFor = 6 * 60 * minute

func (s *Loop) dial(r *relay) {
	if r.learnt.At != 0 && s.clock-r.learnt.At > learntFor {
		r.learnt = learnt{Version: r.learnt.Version}
		r.informed = 0
		r.caps.MaxSubscriptions, r.caps.MaxMessage = 0, 0
	}
	known := r.informed != 0 && s.clock-r.informed < informedFor
	if !known && r.caps.Negentropy == abi.SupportNo {
		r.caps.Negentropy = abi.SupportUnknown // it may have learnt
	}
	s.serial++
	r.conn = ConnID(s.serial)
	r.last.Took = 0
	s.update(r)
	s.perform(Dial{Conn: r.conn, Relay: r.url, Capabilities: r.caps, Inform: !known, learnt: r.learnt})
}
