package session

import (
	"talon/host"
	"talon/host/relaysync/match"
	"talon/host/wire"
	"talon/sdk/abi"
)

// request is one REQ.
type request struct {
	id       string // on the wire; empty until it is sent
	number   int    // the wire id's: in the order of sending
	owner    owner
	matchers []match.Matcher
	filters  []host.Filter // to be sent again, until the relay has answered
	purpose  uint32
	lasting  bool // it stays open after EOSE
	live     bool // nothing stored is asked for

	bytes    int   // of the message
	asked    int64 // when it was made
	sent     int64 // 0: it waits for room
	heard    int64 // when the relay last said something about it
	lost     int64 // when the relay said that it takes no more for now; 0: it did not
	refusals int   // for want of room, or because it may be lost
	probed   bool  // a live one was sent again, in another form

	events   int   // that came and were asked for
	fresh    int   // of them, those that were not known here
	kept     int   // of those, what was stored or held
	received int64 // bytes of their messages
	oldest   int64 // created_at
	inFlight int   // events that came before EOSE and are not answered yet
	eose     bool  // it came
	stored   bool  // everything stored has come
	settled  bool  // and everything before it was answered
	closed   bool  // by the relay or by us
	failed   bool  // the host could not decide about an event
	first    host.ID
}

// owner is whoever made a request.
type owner interface {
	// saw is called for each event that matches. It returns false if the event was
	// not asked for all the same.
	saw(r *request, d *match.Digest) bool

	// complete is called once, when everything stored has come and was answered.
	complete(s *Session, r *request)

	// refused is called once, if the relay ends the request or does not answer it. The
	// request is gone.
	refused(s *Session, r *request, class uint32, reason string)
}

// ask sends a request as soon as the relay has room for it.
func (s *Session) ask(r *request) {
	r.asked = s.now
	s.room.waiting = append(s.room.waiting, r)
	s.fillRoom()
}

// sendRequest sends a request, under a new id.
func (s *Session) sendRequest(r *request) {
	r.id = s.wireID('s')
	r.number = s.serial
	s.requests[r.id] = r
	s.room.add(r)
	s.resend(r)
}

// resend sends a request, once more if the relay wanted a proof of the key.
func (s *Session) resend(r *request) {
	if r.closed || r.filters == nil {
		return
	}
	most := int(s.caps.MaxLimit)
	for i := range r.filters {
		switch f := &r.filters[i]; {
		case r.live:
			f.Limit = s.liveLimit
		case f.Limit < 0 && most > 0 && most <= s.limits.PageEvents:
			// Without one some relays give the oldest events, and not as many
			// (nostream): what is asked for by until, behind them, is nothing.
			f.Limit = most
		}
	}
	text := wire.AppendReq(nil, r.id, r.filters...)
	r.bytes = len(text)
	r.sent, r.heard = s.now, s.now
	s.check(s.now + s.limits.AnswerTime/4)
	s.send(text)
}

// answered notes that the relay has said something about a request.
func (s *Session) answered(r *request) {
	r.heard = s.now
	if r.filters == nil || r.closed {
		return
	}
	r.filters = nil
	s.size.fits(r.bytes)
	s.lastAnswered = max(s.lastAnswered, r.number)
}

// accepted notes that the relay answers a request with what was asked for.
func (s *Session) accepted(r *request) {
	if !r.closed {
		s.width.fits(r.filters)
	}
	s.answered(r)
}

// drop forgets a request that the relay has ended.
func (s *Session) drop(r *request) {
	if r.closed {
		return
	}
	r.closed = true
	if r.sent == 0 {
		s.room.cancel(r)
		return
	}
	delete(s.requests, r.id)
	s.room.remove(r)
	s.auth.forget(r.id)
}

// hangUp ends a request. What the relay has sent before it knows of that is still
// taken.
func (s *Session) hangUp(r *request) {
	if sent := r.sent != 0 && !r.closed; !sent {
		s.drop(r)
		return
	}
	s.drop(r)
	s.send([]byte(`["CLOSE","` + r.id + `"]`))
	s.drain(r)
}

// withdraw ends a request that is to be sent again.
func (s *Session) withdraw(r *request) {
	s.hangUp(r)
	r.sent, r.closed = 0, false
}

// fail ends a request that the relay does not answer.
func (s *Session) fail(r *request, class uint32, reason string) {
	s.hangUp(r)
	r.owner.refused(s, r, class, reason)
}

// settle calls complete when the time for it has come.
func (s *Session) settle(r *request) {
	if r.stored && r.inFlight == 0 && !r.settled && !r.closed {
		r.settled = true
		r.owner.complete(s, r)
		r.purpose = abi.PurposeLive
	}
}

// timeOut ends a request that the relay does not answer, or does not stop answering.
func (r *request) timeOut(s *Session) {
	l := s.limits
	if r.lost != 0 {
		s.resendLost(r)
	}
	switch {
	case s.auth.waits(r.id) || r.stored || r.sent == 0:
	case r.live:
		s.probe(r)
	case s.now-r.heard > l.AnswerTime:
		s.fail(r, abi.ClassError, "no answer in time")
	case s.now-r.sent > l.PageTime:
		s.fail(r, abi.ClassTooMuch, "the answer has no end")
	default:
		s.check(min(r.heard+l.AnswerTime, r.sent+l.PageTime) + 1)
	}
}

// probe finds out whether a live subscription is open that the relay has not answered
// with EOSE. Some relays pass over a REQ for nothing stored (nostr-rs-relay): they are
// asked for one stored event. Others refuse without a word that can be understood: what
// was asked later is answered, this is not. Only a relay that sends no EOSE at all is
// believed without.
func (s *Session) probe(r *request) {
	wait := s.limits.AnswerTime
	if s.lastAnswered > r.number {
		wait /= 4
	}
	if s.now-r.sent <= wait {
		s.check(r.sent + wait + 1)
		return
	}
	switch {
	case !r.probed:
		s.withdraw(r)
		r.probed = true
		if !s.liveAnswered {
			s.liveLimit = 1
		} // else the request, or its answer, was lost
		s.ask(r)
	case s.eoses == 0:
		r.filters = nil
		r.stored = true
		s.settle(r)
	default:
		s.fail(r, abi.ClassError, "the subscription is not answered")
	}
}

// asksFor reports whether an event is what was asked for.
func (r *request) asksFor(d *match.Digest) bool {
	return match.Any(r.matchers, d) && (r.owner == nil || r.owner.saw(r, d))
}
