package session

import (
	"encoding/hex"
	"strconv"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// Receive handles one message of the relay.
func (s *Session) Receive(now int64, text []byte) {
	if !s.at(now) {
		return
	}
	a, err := wire.ParseAnswer(text)
	if err != nil {
		s.violation(messageUnreadable)
		return
	}
	before := s.lastEose
	s.lastEose = nil
	switch a.Verb {
	case wire.AnswerEvent:
		s.event(a.SubID, a.Event, len(text))
	case wire.AnswerEOSE:
		s.eose(a.SubID)
	case wire.AnswerClosed:
		s.closed(a.SubID, a.Text)
	case wire.AnswerOK:
		s.okay(a)
	case wire.AnswerAuth:
		if s.challenges++; s.challenges > 3 {
			s.violation(challengeRepeated)
			return
		}
		s.challenged(a.Text)
	case wire.AnswerNotice:
		s.notice(a.Text, before)
	case wire.OtherAnswer:
		s.other(text)
	}
}

// late passes over something about a request that is not open. A request that was closed
// long ago may be meant: the relay has not taken our CLOSE, or is slow. The relay made up
// an id that no request had.
func (s *Session) late(id string, b breach) {
	if len(id) > 1 && (id[0] == 's' || id[0] == 'n') {
		if n, err := strconv.Atoi(id[1:]); err == nil && n > 0 && n <= s.serial {
			s.violation(b)
			return
		}
	}
	s.violation(idUnknown)
}

// event takes an event that was sent for a request.
func (s *Session) event(id string, e *host.Event, size int) {
	r := s.requests[id]
	if r == nil {
		if r = s.draining.byID[id]; r == nil {
			s.late(id, eventLate)
			return
		}
	}
	r.heard = s.now
	if r.closed && r.matchers == nil {
		b := eventOfClosed
		if r.events++; r.events > s.limits.PageEvents {
			b = answerEndless
		}
		s.violation(b)
		return
	}
	d := s.cfg.Hash.Digest(e)
	fit := r.fit(&d)
	if fit == fitsNothing {
		if b := s.outside(r, e); b != eventOutside {
			s.violation(b)
			return
		}
	}
	if fit == fitsNothing && !r.stray(e.ID) || fit != fitsNothing && r.owner != nil && !r.owner.saw(r, &d) {
		s.violation(eventRepeated)
		return
	}
	s.accepted(r)
	if fit == fitsNothing {
		s.violation(eventOutside)
	} else {
		s.cfg.Holdings.Add(e.ID)
	}
	if r.live && !r.stored && fit == fitsExactly {
		// A live event proves that the subscription is open.
		r.stored = true
		defer s.completeIfDue(r)
	}
	if fit == fitsByValues && len(r.matchers) == 1 && r.matchers[0].MatchesByOtherLetter(&d) {
		r.otherLetter++
	}
	r.events++
	r.received += int64(size)
	if fit != fitsNothing && (r.oldest == 0 || e.CreatedAt < r.oldest) {
		r.oldest = e.CreatedAt
	}
	if r.events > s.limits.PageEvents {
		switch {
		case r.closed:
			s.violation(answerEndless)
			return
		case !r.stored:
			s.fail(r, abi.ClassTooMuch, "the answer has no end")
			return
		}
	}
	if fit == fitsNothing {
		return
	}
	if s.cfg.Known.Has(e.ID, s.seconds()) {
		b := eventKnown
		if r.stored {
			b = eventKnownLive
			if first := s.repeats.first(e.ID); first && !r.closed && tells(e.Kind) {
				s.repeated(len(e.JSON))
			}
		}
		s.violation(b)
		return
	}
	s.onEvent(e, r)
}

// outside tells what a relay does that sends an event for a request that does not ask for
// it. Honest relays do so: the index of khatru with badger finds tags by the beginning of
// their values, and nostr-rs-relay passes over conditions that it does not know.
func (s *Session) outside(r *request, e *host.Event) breach {
	switch {
	case s.cfg.Verify(e) != nil:
		return eventForged
	case r.stored && !r.closed:
		return eventOutsideLive
	}
	return eventOutside
}

// eose takes the end of what is stored.
func (s *Session) eose(id string) {
	r := s.requests[id]
	if r == nil {
		r = s.draining.byID[id]
	}
	if r == nil || r.eose {
		s.late(id, answerLate)
		return
	}
	r.eose, r.opened = true, s.now
	s.eoses++
	if r.closed {
		r.heard = s.now
		return
	}
	s.accepted(r)
	s.flush()
	if r.lasting {
		s.lastEose = r
	}
	if r.live && s.liveLimit == 0 {
		s.liveAnswered = true
	}
	r.stored = true
	s.completeIfDue(r)
}

// closed takes a CLOSED.
func (s *Session) closed(id, reason string) {
	class := classOf(reason)
	if r := s.requests[id]; r != nil {
		what, limit := refusalOf(reason)
		switch {
		case r.stored && !r.lasting && class != abi.ClassRateLimited:
			// It has said all (EOSE) and ends what we end anyway (ngit-grasp, where all
			// ids were found): what is being decided still counts.
			return
		case class == abi.ClassAuthRequired && r.filters != nil && s.mustProve(id):
			return
		case what == refusedSubscriptions || what == refusedValues:
			s.flush()
			s.removeRequest(r)
			r.sent, r.closed = 0, false
			s.noRoom(r, what, limit, reason)
			return
		case what == refusedForOthers:
			class = abi.ClassLimit
		case what == refusedFilters:
			s.tooManyFilters(r, limit)
		case what == refusedLimit:
			class = s.limitTooHigh(r, limit, class)
		case class == abi.ClassRateLimited:
			s.limited(reason)
		}
		s.flush()
		class = s.tooWide(r, class)
		s.answered(r)
		s.removeRequest(r)
		r.owner.refused(s, r, class, Quote(reason))
		return
	}
	if n := s.negs[id]; n != nil {
		if class == abi.ClassRateLimited {
			s.limited(reason)
		}
		n.refused(s, class, reason)
		return
	}
	if r := s.draining.byID[id]; r != nil {
		s.draining.remove(r)
		return
	}
	s.late(id, answerLate)
}

// limited notes that we ask too much.
func (s *Session) limited(reason string) {
	if s.pace.slowDown(s.now, s.limits) {
		s.learnt()
	}
	// Until the loop has asked what is right, nothing more is asked.
	s.pace.coolDown(s.now + 1000)
	s.notify(&Limited{Quote(reason)})
}

// okay takes the answer to an event of ours.
func (s *Session) okay(a wire.Answer) {
	if s.auth.state == authSent && a.ID == s.auth.event {
		s.proven(a.OK, Quote(a.Text))
		return
	}
	p := s.pushes[a.ID]
	if p == nil {
		s.violation(okUnasked)
		return
	}
	delete(s.pushes, a.ID)
	if a.OK {
		s.cfg.Holdings.Add(a.ID)
	}
	p.answered(s, a.OK, a.Text)
}

// other takes what package wire does not read: the messages of NIP-77.
func (s *Session) other(text []byte) {
	verb, id, body, ok := wire.NegAnswer(text)
	n := s.negs[id]
	switch {
	case ok && verb == "NEG-MSG" && n != nil:
		msg, err := hex.DecodeString(body)
		if err != nil {
			n.fetch.noNegentropy(s, abi.ClassError, "a message of negentropy is not hex", false)
			s.violation(comparisonUnreadable)
			return
		}
		n.fetch.result.bytes += int64(len(text))
		n.message(s, msg)
	case ok && (verb == "NEG-ERR" || verb == "NEG-ERROR") && n != nil: // the second is what khatru says
		class := classOf(body)
		if class == abi.ClassRateLimited {
			s.limited(body)
		}
		n.refused(s, class, body)
	case ok && (verb == "NEG-MSG" || verb == "NEG-ERR" || verb == "NEG-ERROR"):
		s.late(id, answerLate)
	default:
		s.violation(verbUnknown)
	}
}

// liveness is whether the relay is there.
type liveness struct {
	heard  int64 // when bytes came last
	pinged bool  // since then
}

// Heard records how many bytes the relay has sent so far, including those of incomplete
// messages.
func (s *Session) Heard(now, total int64) {
	if s.at(now) && total != s.stats.Bytes {
		s.stats.Bytes = total
		s.liveness = liveness{heard: s.now}
	}
}

// alive pings a relay that is silent, and ends the session if it stays so.
func (s *Session) alive() bool {
	v, l := &s.liveness, s.limits
	silence := s.now - v.heard
	switch {
	case silence > l.PingAfter+l.PongTime:
		s.close(EndSilent)
		return false
	case silence > l.PingAfter:
		if !v.pinged {
			v.pinged = true
			s.perform(Ping{})
		}
		s.checkNoLater(v.heard + l.PingAfter + l.PongTime + 1)
	default:
		s.checkNoLater(v.heard + l.PingAfter + 1)
	}
	return true
}
