package session

import (
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// auth proves our key to a relay that asks for it (NIP-42), once for each challenge.
type auth struct {
	challenge string
	state     authState
	event     host.ID  // of the proof that is on its way
	blocked   []string // wire ids of what is sent again when it is proven
	since     int64    // that something is blocked, or the proof was sent
}

type authState uint8

const (
	authIdle authState = iota
	authSent
	authProven
	authRefused
)

// challengeBytes bounds a challenge, which goes into an event that is signed.
const challengeBytes = 1024

// authTime bounds how long we wait for a challenge, or for its answer.
const authTime = 15_000

// waits reports whether a request is blocked.
func (a *auth) waits(id string) bool { return len(a.blocked) > 0 && slices.Contains(a.blocked, id) }

// forget takes out what has ended.
func (a *auth) forget(id string) {
	if i := slices.Index(a.blocked, id); i >= 0 {
		a.blocked = slices.Delete(a.blocked, i, i+1)
	}
}

// mustProve notes that the relay wants to know who makes a request. It returns false if
// that is not to be had.
func (s *Session) mustProve(id string) bool {
	a := &s.auth
	if s.cfg.Sign == nil || a.state == authProven || a.state == authRefused {
		return false
	}
	if len(a.blocked) == 0 {
		a.since = s.now
	}
	if !a.waits(id) {
		a.blocked = append(a.blocked, id)
	}
	s.checkNoLater(a.since + authTime + 1)
	s.prove()
	return true
}

func (s *Session) challenged(text string) {
	a := &s.auth
	if len(text) > challengeBytes || text == "" || text == a.challenge {
		return
	}
	a.challenge, a.state = text, authIdle
	if len(a.blocked) > 0 {
		s.prove()
	}
}

// prove answers the challenge, if there is one.
func (s *Session) prove() {
	a := &s.auth
	if a.challenge == "" || a.state != authIdle {
		return
	}
	e := &host.Event{Kind: host.KindAuth, CreatedAt: s.seconds(), Tags: host.Tags{{"relay", s.relay}, {"challenge", a.challenge}}}
	if err := s.cfg.Sign(e); err != nil {
		s.perform(Log{Error, "sign the answer to a challenge", []any{"relay", s.relay, "err", err}})
		s.unproven("the host could not sign")
		return
	}
	a.state, a.event, a.since = authSent, e.ID, s.now
	s.checkNoLater(s.now + authTime + 1)
	s.send(append(e.AppendJSON([]byte(`["AUTH",`)), ']'))
}

// proven takes the relay's OK to the proof, and sends again what was blocked.
func (s *Session) proven(ok bool, reason string) {
	if !ok {
		s.unproven(reason)
		return
	}
	a := &s.auth
	a.state = authProven
	blocked := a.blocked
	a.blocked = nil
	for _, id := range blocked {
		if r := s.requests[id]; r != nil {
			r.mayMiss(r.began)
			s.resend(r)
		} else if n := s.negs[id]; n != nil {
			n.reopen(s)
		}
	}
}

// unproven ends what is blocked.
func (s *Session) unproven(reason string) {
	a := &s.auth
	a.state = authRefused
	blocked := a.blocked
	a.blocked = nil
	for _, id := range blocked {
		if r := s.requests[id]; r != nil {
			s.removeRequest(r)
			r.owner.refused(s, r, abi.ClassAuthRequired, reason)
		} else if n := s.negs[id]; n != nil {
			n.fetch.noNegentropy(s, abi.ClassAuthRequired, reason, false)
		}
	}
}

func (a *auth) timeOut(s *Session) {
	switch {
	case len(a.blocked) == 0 || a.state == authProven:
	case s.now-a.since > authTime:
		s.unproven("the relay wants a proof of the key and does not answer it")
	default:
		s.checkNoLater(a.since + authTime + 1)
	}
}
