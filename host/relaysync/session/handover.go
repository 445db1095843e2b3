package session

import "slices"

// A relay may store an event some time before it delivers it. strfry delivers what it stored in 100 ms
// together. If a live request comes in that time, the event is older than the request, and the
// request never brings it. The request in whose place it comes still does, if it is open by then.
// So a live request closes handoverTime after those that were sent since are open. If it ends before,
// the session fetches what they may have missed, when it has nothing else to fetch (delayed.go).

// handoverTime is how long two requests are open, and handoverLimit is how long a request waits for
// those after it to open.
const (
	handoverTime  = 500
	handoverLimit = 10_000
)

// leaving is a live request that closes when those in its place have been open for a while.
type leaving struct {
	request *request
	serial  int   // wire ids given then: later requests do not take its place
	by      int64 // when it closes in any case
}

// handOver closes a request, at once if no later request takes its place.
func (s *Session) handOver(r *request) {
	l := leaving{request: r, serial: s.serial, by: s.now + handoverLimit}
	if !s.pace.waits() && (s.handedOver(l) <= s.now || s.roomWanted()) {
		s.endHandover(l)
		return
	}
	if len(s.leaving) >= s.limits.Subscriptions {
		s.endHandover(s.leaving[0])
		s.leaving = slices.Delete(s.leaving, 0, 1)
	}
	s.leaving = append(s.leaving, l)
}

// succeeds reports whether a request was sent in the place of one that leaves.
func (o *request) succeeds(l leaving) bool {
	return o.live && o.number > l.request.number && o.number <= l.serial
}

// handedOver returns when a request may close.
func (s *Session) handedOver(l leaving) (due int64) {
	if !l.request.live {
		return 0
	}
	for _, o := range s.requests {
		switch {
		case !o.succeeds(l):
		case o.opened == 0:
			return l.by
		default:
			due = max(due, o.opened+handoverTime)
		}
	}
	return min(due, l.by)
}

// roomWanted reports whether a subscription waits for room.
func (s *Session) roomWanted() bool {
	return slices.ContainsFunc(s.slots.waiting, func(r *request) bool { return r.lasting })
}

// endHandovers closes the requests whose time has come.
func (s *Session) endHandovers() {
	s.leaving = slices.DeleteFunc(s.leaving, func(l leaving) bool {
		if !l.request.closed && (s.handedOver(l) > s.now || s.pace.waits()) {
			return false
		}
		s.endHandover(l)
		return true
	})
	s.young = slices.DeleteFunc(s.young, func(r *request) bool {
		if !r.closed && !r.openFor(handoverTime, s.now) && s.now < r.sent+handoverLimit {
			return false
		}
		if r.delayed == 0 && r.missed == 0 {
			r.again = nil
		}
		return true
	})
}

// openFor reports whether a request has been open for some milliseconds.
func (r *request) openFor(time, now int64) bool { return r.opened != 0 && now >= r.opened+time }

// endHandover closes a request. Those in its place that have not been open for long may have missed
// events.
func (s *Session) endHandover(l leaving) {
	s.handoverLost(l)
	s.closeRequest(l.request)
	s.oweMissed(l.request)
}

// handoverLost notes that a request has ended, and what those in its place may have missed.
func (s *Session) handoverLost(l leaving) {
	if !l.request.live {
		return
	}
	for _, r := range s.openRequests() {
		if !r.succeeds(l) || r.delayed != 0 || r.openFor(handoverTime, s.now) {
			continue
		}
		if r.filters != nil {
			r.again = r.filters
		}
		if r.again == nil {
			continue // it is open for long, or the relay ends no answer
		}
		if r.delayed = r.sent; r.settled {
			s.queueDelayed(r)
		}
	}
}

// cutHandovers closes all requests that are leaving, since the relay has no room for others. It reports
// whether there were any.
func (s *Session) cutHandovers() bool {
	had := false
	for _, l := range s.leaving {
		if !l.request.closed {
			had = true
			s.endHandover(l)
		}
	}
	s.leaving = nil
	return had
}

// nextHandover returns when the next request may close.
func (s *Session) nextHandover() int64 {
	next, soonest := int64(never), s.now+1
	if s.pace.waits() {
		soonest = s.now + s.pace.wait(s.limits)
	}
	for _, l := range s.leaving {
		next = min(next, max(s.handedOver(l), soonest))
	}
	return next
}
