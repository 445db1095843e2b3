package session

import (
	"talon/host"
	"talon/sdk/abi"
)

// arrivals are the events that have come and that the pipeline has not answered.
type arrivals struct {
	batch []Arrival // that are not submitted yet
	open  map[uint64]arrival
	count int // events that are under way
	bytes int // of their texts
}

// arrival is one of them.
type arrival struct {
	event   *host.Event
	request *request
	stored  bool // it came before the end of stored events
}

func newArrivals() arrivals { return arrivals{open: make(map[uint64]arrival)} }

// batchEvents is how many events are submitted at once, at most.
const batchEvents = 128

// arrive takes an event that was asked for and is not known here.
func (s *Session) arrive(e *host.Event, r *request) {
	a := &s.arrivals
	// What happens on the relay goes on, and must not put off the end of what is stored.
	stored := !r.stored
	if stored {
		r.inFlight++
	}
	t := s.ticket()
	a.open[t] = arrival{e, r, stored}
	a.count++
	a.bytes += len(e.JSON)
	a.batch = append(a.batch, Arrival{t, e, r.purpose})
	if len(a.batch) >= batchEvents {
		s.flush()
	}
}

// flush submits what has come.
func (s *Session) flush() {
	if a := &s.arrivals; len(a.batch) > 0 {
		s.do(Submit{a.batch})
		a.batch = nil
	}
}

// forgedWeight is what an event with a wrong id or signature counts.
const forgedWeight = 5

// Answered takes what became of an event that was submitted.
func (s *Session) Answered(now int64, answer Answer) {
	a, ok := s.arrivals.open[answer.Ticket]
	if !ok || !s.at(now) {
		return
	}
	delete(s.arrivals.open, answer.Ticket)
	s.arrivals.count--
	s.arrivals.bytes -= len(a.event.JSON)
	e, r, v := a.event, a.request, answer.Verdict
	switch answer.Fate {
	case Here, Copied:
		s.stats.Dropped[DropKnown]++
	case Failed:
		r.fresh++
		r.failed = true
	default:
		r.fresh++
		s.decided(e, r, v, &answer)
	}
	if a.stored {
		r.inFlight--
	}
	s.settle(r)
}

// decided takes the verdict of the pipeline.
func (s *Session) decided(e *host.Event, r *request, v host.Verdict, answer *Answer) {
	switch v.Code {
	case host.Busy:
		r.failed = true
	case host.Stored, host.Held:
		if r.kept == 0 {
			r.first = e.ID
		}
		r.kept++
		if s.cfg.Debug {
			s.debug("event from a relay", "event", e.ID, "kind", e.Kind, "relay", s.relay, "source", SourceOf(r.purpose), "verdict", v.Code)
		}
	case host.Duplicate, host.Replaced:
		// An older version of something is not stored, but compared as if it were.
		if c := e.Kind.Class(); c == host.Replaceable || c == host.Addressable {
			s.cfg.Known.Outdate(e, s.seconds())
		}
	case host.Relayed:
	default:
		if s.cfg.Debug {
			s.debug("refused an event from a relay", "event", e.ID, "kind", e.Kind, "relay", s.relay, "reason", v.Reason)
		}
		// What is not what its id says must not stand in the way of what is: it is only
		// counted.
		if s.cfg.Verify(e) != nil {
			s.violation(DropForged, forgedWeight)
			return
		}
		s.cfg.Known.Refuse(e, s.seconds(), answer.Generation)
		s.tell(&Refused{e, answer.Mark})
	}
}

// gapOf returns what live sync should have brought of a request's events.
func gapOf(purpose uint32, kept int, first host.ID) Gap {
	if purpose == abi.PurposeReconnect || purpose == abi.PurposeDaily {
		return Gap{kept, first}
	}
	return Gap{}
}
