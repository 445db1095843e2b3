package session

import "slices"

// pace is how hard the relay is pressed.
type pace struct {
	tokens        float64         // requests that may begin
	cooldownUntil int64           // nothing new is asked before
	deferred      []*fetch        // that wanted to ask for more during a cooldown
	opening       []*subscription // wait to be opened
	waiting       []*fetch        // wait for their turn
	running       int             // fetches
}

// coolDown asks nothing more before a time.
func (p *pace) coolDown(until int64) { p.cooldownUntil = max(p.cooldownUntil, until) }

func (p *pace) refill(seconds float64, l *Limits) {
	p.tokens = min(float64(l.Burst), p.tokens+seconds*l.Requests)
}

// cools reports whether nothing more is to be asked now. Then the fetch goes on later.
func (s *Session) cools(h *fetch) bool {
	if s.now >= s.pace.cooldownUntil {
		return false
	}
	s.pace.deferred = append(s.pace.deferred, h)
	return true
}

// begin opens what waits, as fast as the relay is to be pressed.
func (s *Session) begin() {
	p := &s.pace
	if s.ended || s.now < p.cooldownUntil {
		return
	}
	s.fillRoom()
	deferred := p.deferred
	p.deferred = nil
	for _, h := range deferred {
		if !h.gone {
			h.proceed(s)
		}
	}
	for len(p.opening) > 0 && p.tokens >= 1 {
		sub := p.opening[0]
		p.opening[0] = nil
		if p.opening = p.opening[1:]; sub.gone {
			continue
		}
		p.tokens--
		sub.open(s)
	}
	for len(p.waiting) > 0 && p.tokens >= 1 && p.running < s.limits.Fetches {
		h := p.waiting[0]
		p.waiting[0] = nil
		if p.waiting = p.waiting[1:]; h.gone {
			continue
		}
		p.tokens--
		p.running++
		h.start(s)
	}
	if len(p.opening) == 0 {
		p.opening = nil
	}
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
}

// nextBegin returns when begin can do more.
func (s *Session) nextBegin() int64 {
	p := &s.pace
	switch {
	case s.ended || len(p.opening)+len(p.waiting)+len(p.deferred)+len(s.room.waiting) == 0:
		return never
	case s.now < p.cooldownUntil:
		return p.cooldownUntil
	case len(p.opening) > 0 && p.tokens < 1, len(p.waiting) > 0 && p.running < s.limits.Fetches:
		return s.now + max(1, int64((1-p.tokens)/s.limits.Requests*1000)+1)
	}
	return never // when something ends
}

// prune takes out what nobody wants any more: while the relay is to rest, a strategy may
// change its mind without an end.
func (p *pace) prune(l *Limits) {
	if len(p.opening) >= 2*l.Subscriptions {
		p.opening = slices.DeleteFunc(p.opening, func(sub *subscription) bool { return sub.gone })
	}
	if len(p.waiting) >= l.Waiting {
		p.waiting = slices.DeleteFunc(p.waiting, func(h *fetch) bool { return h.gone })
	}
}
