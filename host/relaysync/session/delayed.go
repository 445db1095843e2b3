package session

import (
	"cmp"

	"talon/host"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// delayed has the live requests that were sent later than they were ordered, because the relay had no
// room for them. Fetches that were ordered with them may have ended before. The session
// fetches the events of that time when it has nothing else to fetch, one request after the other.
//
// A live request may also end before its missed events were asked for, because another one takes its place.
// The other one brings only what is new, so the session owes these events, and asks for them likewise.
type delayed struct {
	queue     []*delayedFetch
	running   *delayedFetch
	forgotten int // owed, and the queue had no room: they count until the connection ends
	reported  int
}

// waitsForRoom notes that a live request waits, although the strategy counts on it.
func (r *request) waitsForRoom() {
	if r.live && r.delayed == 0 {
		r.delayed, r.again = r.began, r.filters
	}
}

// queueDelayed notes that a live request is open. The session asks later for the events that it may have missed.
func (s *Session) queueDelayed(r *request) {
	if r.delayed == 0 || r.closed {
		return
	}
	s.delayed.queue = append(s.delayed.queue, &delayedFetch{live: r})
	s.reportDelayed()
}

// replaced reports whether a live subscription was ordered after a live request that has ended.
func (s *Session) replaced(ended *request) bool {
	for _, sub := range s.subs {
		if r := sub.request; sub.cmd.Live && (r == nil || r.sent == 0 || r.number > ended.number) {
			return true
		}
	}
	return false
}

// oweMissed notes what a live request that has ended may have missed.
func (s *Session) oweMissed(r *request) {
	switch {
	case !r.live:
	case r.missed != 0:
		s.owe(r, r.again, min(r.missed, cmp.Or(r.delayed, r.missed)))
	case r.delayed != 0:
		s.owe(r, r.again, r.delayed)
	case r.lost != 0 && r.filters != nil:
		s.owe(r, r.filters, r.began)
	}
}

// owe has the session ask for events of a live request that has ended, since a time. A strategy has no
// more subscriptions than the limit, and may replace all of them once before the relay is idle. If it does so
// more often, the relay is not complete any more, until the next connection.
func (s *Session) owe(ended *request, filters []host.Filter, since int64) {
	l := &s.delayed
	switch {
	case len(filters) == 0 || !s.replaced(ended):
		return
	case len(l.queue) < 2*s.limits.Subscriptions:
		l.queue = append(l.queue, &delayedFetch{live: ended, owed: true, filters: s.missedFilters(filters, since)})
	default:
		l.forgotten++
	}
	s.reportDelayed()
}

// fetchDelayed asks for what the next live request may have missed, if the relay has nothing else to do
// for us.
func (s *Session) fetchDelayed() {
	l := &s.delayed
	for len(l.queue) > 0 && l.running == nil && s.idle() {
		f := l.queue[0]
		r := f.live
		l.queue[0] = nil
		l.queue = l.queue[1:]
		if !f.owed && !r.closed {
			f.filters = s.missedFilters(r.again, r.delayed)
			r.delayed, r.again = 0, nil
		}
		if f.filters != nil {
			l.running = f
			s.pace.begin()
			f.ask(s)
		}
		s.reportDelayed()
	}
	if len(l.queue) == 0 {
		l.queue = nil
	}
}

// idle reports whether nothing waits to be asked, and no fetch runs.
func (s *Session) idle() bool {
	p := &s.pace
	return p.tokens >= 1 && p.running+len(p.opening)+len(p.waiting)+len(p.deferred)+len(s.slots.waiting) == 0 && !s.clogged()
}

// reportDelayed tells the loop how many live requests may have missed events.
func (s *Session) reportDelayed() {
	n := len(s.delayed.queue) + s.delayed.forgotten
	if s.delayed.running != nil {
		n++
	}
	if n != s.delayed.reported {
		s.delayed.reported = n
		s.notify(&Delayed{n})
	}
}

// delayedFetch owns a request for events that a live one may have missed while it waited for room.
type delayedFetch struct {
	live    *request
	owed    bool // that one has ended
	filters []host.Filter
	tries   int
}

func (f *delayedFetch) ask(s *Session) {
	f.tries++
	filters := append([]host.Filter(nil), f.filters...)
	s.ask(&request{owner: f, purpose: abi.PurposeReconnect, matchers: f.live.matchers, filters: filters})
}

func (*delayedFetch) saw(*request, *match.Digest) bool { return true }

func (f *delayedFetch) complete(s *Session, r *request) {
	s.closeRequest(r)
	switch {
	case r.failed:
		f.give(s)
	case s.mayBeCut(r, f.filters):
		s.pageThrough(f.filters, func(whole bool) {
			if !whole {
				f.give(s)
			}
			f.end(s)
		})
		return
	}
	f.end(s)
}

func (f *delayedFetch) refused(s *Session, _ *request, class uint32, _ string) {
	switch {
	case f.live.closed && !f.owed || s.eoses == 0: // what came is all that can be known
	case class != abi.ClassTooMuch && f.tries < maxMissedTries:
		f.ask(s)
		return
	default:
		f.give(s)
	}
	f.end(s)
}

// give ends the live request, so that the strategy opens it again later, and fetches.
func (f *delayedFetch) give(s *Session) {
	if !f.live.closed {
		s.fail(f.live, abi.ClassError, "what the subscription may have missed was not fetched")
	}
}

func (f *delayedFetch) end(s *Session) {
	s.delayed.running = nil
	s.reportDelayed()
}
