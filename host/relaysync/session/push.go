package session

import (
	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// push sends the relay what it lacks.
type push struct {
	by       *reconciliation
	have     []host.ID // that are to be sent
	sent     int       // events that were sent
	inFlight int       // of them, those that are not answered
	reading  uint64    // ticket of texts that are being read; 0: none are
	heard    int64
}

// pushesAtOnce is how many events a relay is sent before it has answered.
const pushesAtOnce = 32

func (p *push) idle() bool { return p.inFlight == 0 && p.reading == 0 }

// more reads the next events, as many as may be in flight.
func (p *push) more(s *Session, n *reconciliation) {
	p.by = n
	if left := s.limits.Push - p.sent; len(p.have) > left {
		p.have = p.have[:left]
	}
	count := min(pushesAtOnce-p.inFlight, len(p.have))
	if p.reading != 0 || count <= 0 {
		if p.idle() {
			n.fetch.finish(s)
		}
		return
	}
	p.sent += count
	p.reading = s.ticket()
	s.reads[p.reading] = p
	s.do(Read{p.reading, p.have[:count:count]})
	p.have = p.have[count:]
}

// Texts takes the answer to a Read: the texts of those events that are stored here.
func (s *Session) Texts(now int64, ticket uint64, texts [][]byte) {
	p := s.reads[ticket]
	delete(s.reads, ticket)
	if p == nil || !s.at(now) || p.reading != ticket || p.by.fetch.gone {
		return
	}
	p.reading = 0
	for _, text := range texts {
		e, err := wire.ParseEvent(text)
		if err != nil || e.Protected() || s.pushes[e.ID] != nil {
			continue
		}
		s.pushes[e.ID] = p
		p.inFlight++
		p.heard = s.now
		s.check(s.now + s.limits.AnswerTime + 1)
		s.send(append(append([]byte(`["EVENT",`), text...), ']'))
	}
	p.more(s, p.by)
}

// answered takes the relay's OK to one of the events.
func (p *push) answered(s *Session, ok bool, reason string) {
	if p.inFlight == 0 {
		return // of a fetch that has ended
	}
	p.inFlight--
	p.heard = s.now
	if !ok && classOf(reason) == abi.ClassRateLimited {
		s.limited(reason)
		p.have = nil
	}
	p.more(s, p.by)
}

// timeOut gives up on a relay that does not answer. What it had was fetched before.
func (p *push) timeOut(s *Session, n *reconciliation) {
	switch {
	case p.inFlight == 0:
	case s.now-p.heard > s.limits.AnswerTime:
		n.fetch.finish(s)
	default:
		s.check(p.heard + s.limits.AnswerTime + 1)
	}
}

// abandon sends nothing more. The relay may still answer what is in flight.
func (p *push) abandon(s *Session) {
	if p.inFlight > 0 {
		for id, other := range s.pushes {
			if other == p {
				s.pushes[id] = &push{}
			}
		}
	}
	p.have, p.inFlight, p.reading = nil, 0, 0
}
