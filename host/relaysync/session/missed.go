package session

import (
	"talon/host"
	"talon/host/relaysync/match"
	"talon/sdk/abi"
)

// A live request brings what is new from the moment in which the relay reads it. The strategy counts
// on it from the moment in which it was ordered. There are events of the time between if
//   - the relay lost the message, or passes over a live request in this form
//   - the relay wants a proof of our key first
//   - what it takes the place of ended before it was sent
//
// When the relay has answered it, a request of its own fetches what it may have missed. Until that is
// here, the subscription is not reported to be open.
//
// A live request may also have waited for room. At a relay with little room many do, and requests of
// their own would take the room of a first sync. So the session reports such a subscription as open,
// and asks for what it may have missed when there is nothing else to fetch (delayed.go).

// mayMiss notes that a live request may have missed events since a time.
func (r *request) mayMiss(since int64) {
	if r.live && (r.missed == 0 || since < r.missed) {
		r.missed, r.again = since, r.filters
	}
}

// heldLost notes that a subscription has ended that was open for those that wait to be opened.
func (s *Session) heldLost() {
	for _, t := range s.pace.opening {
		if t.open != nil && t.open.missed == 0 {
			t.open.missed = s.now
		}
	}
}

// askAgain sends a request again that may be lost.
func (s *Session) askAgain(r *request) {
	r.mayMiss(r.began)
	s.withdraw(r)
	s.ask(r)
}

// missedMargin is how many seconds before a live request events are asked for that it may have
// missed: some are late.
const missedMargin = 900

// missed owns a request for events that a live one may have missed.
type missed struct {
	live    *request
	filters []host.Filter
	tries   int
	awaited bool // else the relay ends no answer
}

// maxMissedTries is how often they are asked for.
const maxMissedTries = 3

// fetchMissed asks for what a live request may have missed, apart: with a since in itself, new
// events with old dates would not come.
func (s *Session) fetchMissed(r *request) {
	if r.missed == 0 {
		return
	}
	if r.delayed != 0 {
		r.missed = min(r.missed, r.delayed)
	}
	m := &missed{live: r, awaited: s.eoses > 0, filters: s.missedFilters(r.again, r.missed)}
	r.missed, r.delayed, r.again = 0, 0, nil
	if m.awaited {
		r.fetching++
	}
	m.ask(s)
}

// missedFilters returns the filters of what a live request may have missed since a time.
func (s *Session) missedFilters(of []host.Filter, missed int64) (filters []host.Filter) {
	since := missed/1000 - missedMargin
	for _, f := range of {
		f.Since, f.Limit = &since, s.limits.Page
		if limit := int(s.caps.MaxLimit); limit > 0 {
			f.Limit = min(f.Limit, limit)
		}
		filters = append(filters, f)
	}
	return filters
}

// mayBeCut reports whether an answer to such filters may be incomplete.
func (s *Session) mayBeCut(r *request, filters []host.Filter) bool {
	return r.events >= filters[0].Limit || s.caps.MaxLimit == 0 && r.events >= unstatedLimit
}

func (m *missed) ask(s *Session) {
	m.tries++
	filters := append([]host.Filter(nil), m.filters...)
	s.ask(&request{owner: m, purpose: abi.PurposeReconnect, matchers: m.live.matchers, filters: filters})
}

func (*missed) saw(*request, *match.Digest) bool { return true }

func (m *missed) complete(s *Session, r *request) {
	s.closeRequest(r)
	switch {
	case r.failed:
		m.give(s)
	case s.mayBeCut(r, m.filters):
		s.pageThrough(m.filters, func(whole bool) {
			if whole {
				m.end(s)
			} else {
				m.give(s)
			}
		})
	default:
		m.end(s)
	}
}

// pageThrough fetches page by page, one filter after the other, and tells done whether that is all.
func (s *Session) pageThrough(filters []host.Filter, done func(whole bool)) {
	if len(filters) == 0 {
		done(true)
		return
	}
	f := filters[0]
	f.Limit = -1
	h := &fetch{cmd: &Fetch{Filter: f, Method: abi.MethodREQ, Purpose: abi.PurposeReconnect}, method: abi.MethodREQ}
	h.done = func() {
		if h.result.partial {
			done(false)
			return
		}
		s.pageThrough(filters[1:], done)
	}
	s.pace.running++
	h.start(s)
}

// unstatedLimit is how many events an answer has that may have been cut by a relay that states no
// limit.
const unstatedLimit = 100

func (m *missed) refused(s *Session, _ *request, class uint32, _ string) {
	if !m.awaited {
		return // what came is all that can be known
	}
	if class != abi.ClassTooMuch && m.tries < maxMissedTries && (!m.live.closed || s.replaced(m.live)) {
		m.ask(s)
		return
	}
	m.give(s)
}

// give ends the live request: the strategy opens it again later, and fetches what it may have missed.
func (m *missed) give(s *Session) {
	if !m.live.closed {
		s.fail(m.live, abi.ClassError, "what the subscription may have missed was not fetched")
	}
}

// end notes that what the live request may have missed is here.
func (m *missed) end(s *Session) {
	if m.awaited {
		m.live.fetching--
		s.completeIfDue(m.live)
	}
}
