package session

import (
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// arrivals are the events that have come and that the pipeline has not answered.
type arrivals struct {
	batch []ReceivedEvent // that are not submitted yet
	open  map[uint64]queuedEvent
	count int // events that are under way
	bytes int // of their texts
}

// queuedEvent is one of them.
type queuedEvent struct {
	event   *host.Event
	request *request
	purpose uint32
	stored  bool // it came before the end of stored events
	again   bool // it is new, and this relay has sent it before
}

func newArrivals() arrivals { return arrivals{open: make(map[uint64]queuedEvent)} }

// batchEvents is the largest number of events in one Submit.
const batchEvents = 128

// onEvent takes an event that was asked for and is not known here.
func (s *Session) onEvent(e *host.Event, r *request) {
	a := &s.arrivals
	// New events on the relay must not put off the end of what is stored.
	stored, purpose := !r.stored, r.purpose
	if stored {
		r.inFlight++
	} else if r.lasting {
		purpose = abi.PurposeLive
	}
	t := s.ticket()
	a.open[t] = queuedEvent{e, r, purpose, stored, !stored && !s.repeats.first(e.ID)}
	a.count++
	a.bytes += len(e.JSON)
	a.batch = append(a.batch, ReceivedEvent{t, e, purpose})
	if len(a.batch) >= batchEvents {
		s.flush()
	}
}

// flush submits what has come.
func (s *Session) flush() {
	if a := &s.arrivals; len(a.batch) > 0 {
		s.perform(Submit{a.batch})
		a.batch = nil
	}
}

// Answered handles the result of a submitted event.
func (s *Session) Answered(now int64, answer Answer) {
	a, ok := s.arrivals.open[answer.Ticket]
	if !ok || !s.at(now) {
		return
	}
	delete(s.arrivals.open, answer.Ticket)
	s.arrivals.count--
	s.arrivals.bytes -= len(a.event.JSON)
	e, r, v := a.event, a.request, answer.Verdict
	switch answer.Outcome {
	case Here, Copied:
		s.stats.Dropped[DropKnown]++
		if !a.stored && !a.again && !r.closed && tells(e.Kind) {
			s.repeated(len(e.JSON))
		}
	case Failed:
		r.fresh++
		r.failed = true
	default:
		r.fresh++
		s.decided(&a, v, &answer)
	}
	if a.stored {
		r.inFlight--
	}
	s.completeIfDue(r)
}

// decided takes the verdict of the pipeline.
func (s *Session) decided(a *queuedEvent, v host.Verdict, answer *Answer) {
	e, r := a.event, a.request
	switch v.Code {
	case host.Busy:
		r.failed = true
	case host.Stored, host.Held:
		if a.stored || !r.lasting {
			if r.kept == 0 {
				r.first = e.ID
			}
			r.kept++
		}
		if s.cfg.Debug {
			s.debug("event from a relay", "event", e.ID, "kind", e.Kind, "relay", s.relay, "source", SourceOf(a.purpose), "verdict", v.Code)
		}
	case host.Duplicate, host.Replaced:
		// An older version of something is not stored, but compared as if it were.
		if c := e.Kind.Class(); c == host.Replaceable || c == host.Addressable {
			s.cfg.Known.Exclude(e, s.seconds())
		}
	case host.Relayed:
	default:
		if s.cfg.Debug {
			s.debug("refused an event from a relay", "event", e.ID, "kind", e.Kind, "relay", s.relay, "reason", v.Reason)
		}
		// A forged event is only counted: the real one with this id may still come.
		if s.cfg.Verify(e) != nil {
			s.violation(eventForged)
			return
		}
		s.cfg.Known.Refuse(e, s.seconds(), answer.Generation)
		s.notify(&Refused{e, answer.Position})
	}
}

// GapOf returns what live sync should have brought of the events that were kept of a
// request for a purpose.
func GapOf(purpose uint32, kept int, first host.ID) Gap {
	if purpose == abi.PurposeReconnect || purpose == abi.PurposeDaily {
		return Gap{kept, first}
	}
	return Gap{}
}

// drain keeps requests that we closed for as long as the relay may still send something
// for them: events that were on their way are wanted, and no breach of the rules. A relay
// may have hundreds of answers to go when we change our minds, and sends them in turn: of
// those closed long ago only the ids are kept, and what comes for them is passed over.
type drain struct {
	byID  map[string]*request
	order []*request // by when their CLOSE was sent; one that was sent again is there again
	whole int        // of them, those whose events are still taken
	lost  []*request // of them, those whose CLOSE is to be sent again
}

// maxDraining bounds the requests whose events are taken, and maxDrainingIDs all that
// are kept.
const (
	maxDraining    = 128
	maxDrainingIDs = 4096
)

func newDrain() drain { return drain{byID: make(map[string]*request)} }

// drain keeps a request that was closed just now. The request itself may be sent again,
// under another id.
func (s *Session) drain(r *request) {
	old := &request{
		id: r.id, number: r.number, matchers: r.matchers, purpose: r.purpose, events: r.events, eose: r.eose, stored: true, closed: true,
		sent: s.now, heard: s.now,
	}
	d := &s.draining
	d.byID[old.id] = old
	d.order = append(d.order, old)
	if d.whole++; d.whole > maxDraining {
		d.strip(d.evictOldest())
	}
	if len(d.byID) > maxDrainingIDs {
		d.remove(d.order[0])
	}
	s.checkNoLater(s.now + s.limits.AnswerTime)
}

// evictOldest returns the closed request that the relay has least to send for. That is the
// oldest one with an EOSE, or the oldest of all if there is none.
func (d *drain) evictOldest() (low *request) {
	for _, r := range d.order {
		switch {
		case r.matchers == nil || d.byID[r.id] != r:
		case r.eose:
			return r
		case low == nil:
			low = r
		}
	}
	return low
}

// strip keeps no more of a request than that it was ours.
func (d *drain) strip(r *request) {
	if r.matchers != nil {
		r.matchers = nil
		d.whole--
	}
}

func (d *drain) remove(r *request) {
	d.strip(r)
	delete(d.byID, r.id)
	for len(d.order) > 0 && d.byID[d.order[0].id] != d.order[0] {
		d.order[0] = nil
		d.order = d.order[1:]
	}
}

// maybeLost notes that the relay has lost a message, which may be a CLOSE: what it has not
// closed takes its room for as long as the connection lasts.
func (d *drain) maybeLost(now int64) {
	for _, r := range slices.Backward(d.order) {
		if now-r.sent > lostTime {
			return
		}
		if d.byID[r.id] == r && r.lost == 0 && r.refusals < maxRefusals {
			r.lost = now
			d.lost = append(d.lost, r)
		}
	}
}

// closingsTakeRoom reports whether the requests whose CLOSE the relay may have lost take the room of others, at
// a relay whose limit is known.
func (s *Session) closingsTakeRoom() bool {
	limit, lost := int(s.caps.MaxSubscriptions), len(s.draining.lost)
	return limit > 0 && lost > 0 && lost+s.slots.open+len(s.slots.waiting)+len(s.pace.opening)+len(s.pace.waiting) > limit
}

// closeAgain sends each CLOSE again that the relay may have lost.
func (s *Session) closeAgain() {
	d := &s.draining
	for len(d.lost) > 0 && !s.pace.waits() {
		r := d.lost[0]
		d.lost[0] = nil
		if d.lost = d.lost[1:]; d.byID[r.id] == r {
			r.lost, r.sent = 0, s.now
			r.refusals++
			d.order = append(d.order, r)
			s.send([]byte(`["CLOSE","` + r.id + `"]`))
		}
	}
	if len(d.lost) == 0 {
		d.lost = nil
	}
}

// forgetDrained lets go of requests for which nothing has come for long, and of those
// that were closed long ago.
func (s *Session) forgetDrained() {
	d, l := &s.draining, s.limits
	for _, r := range d.order {
		if r == nil || d.byID[r.id] != r {
			continue
		}
		by := r.sent + l.PageTime
		silent := min(r.heard+l.AnswerTime, by)
		switch {
		case s.now >= by, s.now >= silent && r.eose && r.lost == 0:
			d.remove(r)
		case s.now >= silent:
			d.strip(r) // its answer may still wait for its turn
			s.checkNoLater(by)
		default:
			s.checkNoLater(silent)
		}
	}
}
