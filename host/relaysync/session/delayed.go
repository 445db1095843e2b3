package session

import (
	"talon/host"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// delayed has the live requests that were sent later than they were ordered, because the relay had no
// room for them. Fetches that were ordered with them may have ended before. The session
// fetches the events of that time when it has nothing else to fetch, one request after the other.
type delayed struct {
	queue    []*request
	running  *delayedFetch
	reported int
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
	s.delayed.queue = append(s.delayed.queue, r)
	s.reportDelayed()
}

// fetchDelayed asks for what the next live request may have missed, if the relay has nothing else to do
// for us.
func (s *Session) fetchDelayed() {
	l := &s.delayed
	for len(l.queue) > 0 && l.running == nil && s.idle() {
		r := l.queue[0]
		l.queue[0] = nil
		if l.queue = l.queue[1:]; !r.closed {
			l.running = &delayedFetch{live: r, filters: s.missedFilters(r.again, r.delayed)}
			r.delayed, r.again = 0, nil
			s.pace.begin()
			l.running.ask(s)
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
	n := len(s.delayed.queue)
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
	case f.live.closed || s.eoses == 0: // what came is all that can be known
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
