package session

import (
	"slices"

	"talon/host"
	"talon/host/relaysync/match"
	"talon/host/wire"
	"talon/sdk/abi"
	"talon/sdk/grasp"
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

	values   int           // of its filters, as relays count them
	bytes    int           // of the message
	began    int64         // when a live one was first made: the strategy counts on it from then on
	asked    int64         // when it was made
	sent     int64         // 0: it waits for room
	opened   int64         // when the relay had answered it; 0: it has not
	heard    int64         // when the relay last said something about it
	lost     int64         // when the relay said that it takes no more for now; 0: it did not
	refusals int           // for want of room, or because it may be lost
	altered  bool          // a live one was sent again, in another form
	missed   int64         // since when a live one may have missed events; 0: it has not
	delayed  int64         // since when a live one waited for room; 0: it did not
	again    []host.Filter // of one that may have missed some, or was answered lately
	fetching int           // requests for what it has missed

	events      int                  // that came, those outside included
	outside     map[host.ID]struct{} // of them, those that were not asked for
	otherLetter int                  // of them, those that match only under another letter of the tag
	fresh       int                  // of them, those that were not known here
	kept        int                  // of those, what was stored or held
	received    int64                // bytes of their messages
	oldest      int64                // created_at
	inFlight    int                  // events that came before EOSE and are not answered yet
	eose        bool                 // it came
	stored      bool                 // everything stored has come
	settled     bool                 // and everything before it was answered
	closed      bool                 // by the relay or by us
	failed      bool                 // the host could not decide about an event
	first       host.ID
}

// stray notes an event that was not asked for, and reports whether it is the first time. The number
// of such events is bounded: the relay loses its connection for them.
func (r *request) stray(id host.ID) bool {
	if _, ok := r.outside[id]; ok {
		return false
	}
	if r.outside == nil {
		r.outside = make(map[host.ID]struct{})
	}
	r.outside[id] = struct{}{}
	return true
}

// owner is the part of the session that made a request.
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
	if r.filters != nil {
		r.values = host.FilterValues(r.filters...)
	}
	s.slots.waiting = append(s.slots.waiting, r)
	s.fillSlots()
	if r.sent == 0 && !r.closed {
		r.waitsForRoom() // those that are behind it may be sent before
	}
}

// sendRequest sends a request, under a new id.
func (s *Session) sendRequest(r *request) {
	r.id = s.wireID('s')
	r.number = s.serial
	s.requests[r.id] = r
	s.slots.add(r)
	s.resend(r)
}

// resend sends a request, once more if the relay wanted a proof of the key.
func (s *Session) resend(r *request) {
	if r.closed || r.filters == nil {
		return
	}
	limit := int(s.caps.MaxLimit)
	for i := range r.filters {
		switch f := &r.filters[i]; {
		case r.live:
			f.Limit = s.liveLimit
		case f.Limit < 0 && limit > 0 && limit <= s.limits.PageEvents:
			// Without one some relays give the oldest events, and not as many
			// (nostream): what is asked for by until, behind them, is nothing.
			f.Limit = limit
		}
	}
	text := wire.AppendReq(nil, r.id, r.filters...)
	r.bytes = len(text)
	r.sent, r.heard = s.now, s.now
	s.checkNoLater(s.now + s.limits.AnswerTime/4)
	s.send(text)
}

// answered notes that the relay has said something about a request.
func (s *Session) answered(r *request) {
	r.heard = s.now
	if r.filters == nil || r.closed {
		return
	}
	if r.live && r.again == nil {
		r.again = r.filters
		s.young = append(s.young, r)
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

// removeRequest forgets a request that the relay has ended.
func (s *Session) removeRequest(r *request) {
	if r.closed {
		return
	}
	r.closed = true
	if r.sent == 0 {
		s.slots.cancel(r)
		return
	}
	delete(s.requests, r.id)
	s.slots.remove(r)
	s.auth.forget(r.id)
}

// closeRequest ends a request. The session still takes the events that the relay sends
// before it reads the CLOSE.
func (s *Session) closeRequest(r *request) {
	if sent := r.sent != 0 && !r.closed; !sent {
		s.removeRequest(r)
		return
	}
	s.removeRequest(r)
	s.send([]byte(`["CLOSE","` + r.id + `"]`))
	s.drain(r)
}

// withdraw ends a request that the session will send again.
func (s *Session) withdraw(r *request) {
	s.closeRequest(r)
	r.sent, r.opened, r.closed = 0, 0, false
}

// fail ends a request that the relay does not answer.
func (s *Session) fail(r *request, class uint32, reason string) {
	s.closeRequest(r)
	r.owner.refused(s, r, class, reason)
}

// completeIfDue calls complete when the time for it has come.
func (s *Session) completeIfDue(r *request) {
	if r.stored && !r.closed {
		s.fetchMissed(r)
	}
	if r.stored && r.inFlight == 0 && r.fetching == 0 && !r.settled && !r.closed {
		r.settled = true
		r.owner.complete(s, r)
		s.queueDelayed(r)
		r.purpose = abi.PurposeLive
		if r.lasting && !r.live {
			s.checkNoLater(s.now + overTime) // see endOver
		}
	}
}

// timeOut ends a request that the relay does not answer, or does not stop answering.
func (r *request) timeOut(s *Session) {
	l := s.limits
	if sub, ok := r.owner.(*subscription); ok && sub.gone {
		return // it is closed in its turn
	}
	if r.lost != 0 {
		s.resendLost(r)
	}
	switch {
	case s.auth.waits(r.id) || r.stored || r.sent == 0:
	case r.lost != 0 && r.filters != nil && r.refusals < maxRefusals: // it is sent again after the rest
	case r.live:
		s.checkAnswered(r)
	case s.now-r.heard > l.AnswerTime:
		s.fail(r, abi.ClassError, "no answer in time")
	case s.now-r.sent > l.PageTime:
		s.fail(r, abi.ClassTooMuch, "the answer has no end")
	default:
		s.checkNoLater(min(r.heard+l.AnswerTime, r.sent+l.PageTime) + 1)
	}
}

// checkAnswered finds out whether a live subscription is open that the relay has not answered
// with EOSE. Some relays pass over a REQ for nothing stored (nostr-rs-relay): they are
// asked for one stored event. Others refuse without a word that can be understood: what
// was asked later is answered, this is not. Only a relay that sends no EOSE at all is
// believed without.
func (s *Session) checkAnswered(r *request) {
	wait := s.limits.AnswerTime
	if s.lastAnswered > r.number {
		wait /= 4
	}
	if s.now-r.sent <= wait {
		s.checkNoLater(r.sent + wait + 1)
		return
	}
	switch {
	case !r.altered:
		r.altered = true
		if !s.liveAnswered { // else it, or its answer, was lost
			s.liveLimit = 1
		}
		s.askAgain(r)
	case s.eoses == 0:
		r.filters = nil
		r.stored, r.opened = true, s.now
		s.completeIfDue(r)
	default:
		s.fail(r, abi.ClassError, "the subscription is not answered")
	}
}

// fit is how well an event fits the filters of a request.
type fit uint8

const (
	fitsNothing  fit = iota
	fitsByValues     // if the letters of tags are ignored
	fitsExactly
)

// fit returns how well an event fits the filters.
func (r *request) fit(d *match.Digest) fit {
	switch {
	case match.Any(r.matchers, d):
		return fitsExactly
	case match.AnyByValues(r.matchers, d):
		return fitsByValues
	}
	return fitsNothing
}

// subscription is one that the strategy asked for.
type subscription struct {
	cmd     *Subscribe // without its filters when it is open
	request *request   // nil until it is opened
	missed  int64      // since when what it takes the place of has ended; 0: it is open
	gone    bool
}

// subscribe opens a subscription when its turn comes. One with the same id stays open until
// then.
func (s *Session) subscribe(cmd *Subscribe) {
	old := s.subs[cmd.ID]
	if old == nil {
		s.unsubscribe(cmd.ID)
	}
	sub := &subscription{cmd: cmd}
	s.subs[cmd.ID] = sub
	s.pace.opening = append(s.pace.opening, turn{open: sub})
	if old != nil {
		s.closeInTurn(old)
	}
}

// unsubscribe ends a subscription or a fetch, silently.
func (s *Session) unsubscribe(id string) {
	if sub := s.subs[id]; sub != nil {
		delete(s.subs, id)
		s.closeInTurn(sub)
	}
	if h := s.fetches[id]; h != nil {
		h.abandon(s)
	}
}

// closeInTurn closes a subscription when those that were ordered before are open: they may take
// its place. A relay that rests may lose a CLOSE, and those that follow wait in any case.
func (s *Session) closeInTurn(sub *subscription) {
	sub.gone = true
	switch r := sub.request; {
	case r == nil:
		s.pace.cancel(sub)
		if sub.missed != 0 && sub.cmd.Live {
			s.owe(&request{matchers: s.cfg.Hash.Matchers(sub.cmd.Filters), closed: true}, sub.cmd.Filters, sub.missed)
		}
	case r.sent == 0:
		s.closeRequest(r)
		s.oweMissed(r)
	case len(s.pace.opening) == 0 && s.now >= s.pace.cooldownUntil:
		s.handOver(r)
	default:
		s.pace.opening = append(s.pace.opening, turn{close: r})
	}
}

func (sub *subscription) open(s *Session) {
	cmd := sub.cmd
	sub.request = &request{
		owner: sub, began: s.now, purpose: cmd.Purpose, filters: cmd.Filters, matchers: s.cfg.Hash.Matchers(cmd.Filters), live: cmd.Live, lasting: true,
	}
	cmd.Filters = nil
	if sub.missed != 0 {
		sub.request.mayMiss(sub.missed)
	}
	s.ask(sub.request)
}

func (sub *subscription) saw(*request, *match.Digest) bool { return true }

func (sub *subscription) complete(s *Session, r *request) {
	s.notify(&Eose{
		Serial: sub.cmd.Serial,
		Input:  abi.Eose{Relay: s.relay, ID: sub.cmd.ID, Events: uint32(r.events), New: uint32(r.fresh), MinCreatedAt: r.oldest},
		Gap:    GapOf(r.purpose, r.kept, r.first),
	})
}

func (sub *subscription) refused(s *Session, r *request, class uint32, reason string) {
	if sub.gone {
		s.heldLost()
		s.oweMissed(r)
		if i := slices.IndexFunc(s.leaving, func(l leaving) bool { return l.request == r }); i >= 0 {
			s.handoverLost(s.leaving[i])
		}
	}
	if s.subs[sub.cmd.ID] == sub {
		delete(s.subs, sub.cmd.ID)
	}
	sub.gone = true
	s.notify(&Closed{Serial: sub.cmd.Serial, Input: abi.Closed{Relay: s.relay, ID: sub.cmd.ID, Class: class, Reason: Quote(reason)}})
}

// repositoriesOf returns the repositories whose addresses a filter names.
func repositoriesOf(f *host.Filter) (repos []string) {
	had := map[string]bool{}
	for _, t := range f.Tags {
		for _, v := range t.Values {
			if a, ok := host.ParseAddress(v); ok && a.Kind == grasp.KindAnnouncement && !had[v] {
				had[v] = true
				repos = append(repos, v)
			}
		}
	}
	return repos
}
