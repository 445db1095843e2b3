package session

import "slices"

// pace is how hard the relay is pressed. At first the session limits only how many subscriptions and fetches
// begin. A relay that says "rate limited" counts all messages, as far as is known. From then on, the session
// counts all of them too, and learns how many the relay takes.
type pace struct {
	tokens        float64  // requests that may begin; messages once a pace is learnt, and below 0 after those that can not wait
	learnt        float64  // messages a second that the relay takes; 0: it has not said that it takes fewer
	changed       int64    // when that changed
	held          int64    // when a request last waited for tokens alone
	sent          minute   // messages
	cooldownUntil int64    // nothing new is asked before
	deferred      []*fetch // that wanted to ask for more during a cooldown
	opening       []turn   // wait to be opened, or to be closed after those before them
	waiting       []*fetch // wait for their turn
	running       int      // fetches
}

// turn is a subscription that waits to be opened, or a request that waits to be closed.
type turn struct {
	open  *subscription
	close *request
}

// coolDown asks nothing more before a time.
func (p *pace) coolDown(until int64) { p.cooldownUntil = max(p.cooldownUntil, until) }

// A learnt pace is between the 1/slowest part of the usual one and the usual one. It grows by a quarter each
// growTime, unless the relay complains. burstTime is the time whose messages may follow one another at once: some
// relays count over a minute, others over a second.
const (
	slowest   = 32
	growTime  = 30 * 60_000
	burstTime = 2 // seconds
)

// minute counts what happened within the last minute.
type minute struct {
	counts [6]int
	slot   int64 // of 10 seconds, that the last count is of
}

const slotTime = 10_000

func (m *minute) turn(now int64) {
	for n := min(now/slotTime-m.slot, int64(len(m.counts))); n > 0; n-- {
		copy(m.counts[:], m.counts[1:])
		m.counts[len(m.counts)-1] = 0
	}
	m.slot = now / slotTime
}

func (m *minute) add(now int64) {
	m.turn(now)
	m.counts[len(m.counts)-1]++
}

func (m *minute) sum(now int64) (n int) {
	m.turn(now)
	for _, c := range m.counts {
		n += c
	}
	return n
}

// slowDown takes the news that the relay is asked too much. The pace is halved, or lowered to what was sent in
// the last minute if that is less. The complaints of one rest are about one burst.
// slowDown reports whether the pace changed.
func (p *pace) slowDown(now int64, l *Limits) bool {
	if now < p.cooldownUntil {
		return false
	}
	rate := p.learnt
	if rate == 0 {
		rate = l.Requests
	}
	took := float64(p.sent.sum(now)) / 60
	p.learnt = max(l.Requests/slowest, min(max(took, rate/8), rate/2))
	p.tokens, p.changed = 0, now
	return true
}

// grow raises a learnt pace that the relay has taken for a while, and reports whether it did.
func (p *pace) grow(now int64, l *Limits) bool {
	if p.learnt == 0 || now-p.changed < growTime {
		return false
	}
	p.changed = now
	if p.learnt *= 1.25; p.learnt >= l.Requests {
		p.learnt = 0
	}
	return true
}

// perMinute returns the messages that the relay takes in a minute, 0 if it has not complained.
func (p *pace) perMinute() uint32 { return uint32(float64(p.learnt*60) + 0.5) }

func (p *pace) refill(seconds float64, l *Limits) {
	rate, burst := l.Requests, float64(l.Burst)
	if p.learnt > 0 {
		rate, burst = p.learnt, max(2, p.learnt*burstTime)
	}
	p.tokens = min(burst, p.tokens+float64(seconds*rate))
}

// wait returns the milliseconds until another request may begin.
func (p *pace) wait(l *Limits) int64 {
	rate := l.Requests
	if p.learnt > 0 {
		rate = p.learnt
	}
	return max(1, int64((1-p.tokens)/rate*1000)+1)
}

// begin counts a subscription or fetch that begins.
func (p *pace) begin() {
	if p.learnt == 0 {
		p.tokens--
	}
}

// message counts a message.
func (p *pace) message(now int64) {
	if p.sent.add(now); p.learnt > 0 {
		p.tokens--
	}
}

// waits reports whether the relay takes no message yet, by a pace that was learnt.
func (p *pace) waits() bool { return p.learnt > 0 && p.tokens < 1 }

// cools reports whether the relay rests now, or takes no more for now. If so, cools defers the fetch.
func (s *Session) cools(h *fetch) bool {
	p := &s.pace
	if s.now >= p.cooldownUntil && !p.waits() {
		return false
	}
	if !slices.Contains(p.deferred, h) {
		p.deferred = append(p.deferred, h)
	}
	return true
}

// startFetches opens waiting subscriptions and fetches, no faster than the pace allows. At a relay that takes few
// messages, subscriptions open before others close.
func (s *Session) startFetches() {
	p := &s.pace
	if s.ended || s.now < p.cooldownUntil {
		return
	}
	if p.learnt == 0 {
		s.endHandovers()
	}
	if s.closingsTakeRoom() {
		s.closeAgain()
	}
	s.fillSlots()
	for len(p.opening) > 0 {
		next := p.opening[0]
		if next.open != nil && (p.tokens < 1 || s.clogged()) {
			break
		}
		p.opening[0] = turn{}
		p.opening = p.opening[1:]
		switch {
		case next.open != nil:
			p.begin()
			next.open.open(s)
		case !next.close.closed:
			s.handOver(next.close)
			s.fillSlots() // with one that waits for its place
		}
	}
	if p.learnt > 0 {
		s.endHandovers()
		s.fillSlots()
	}
	s.closeAgain()
	deferred := p.deferred
	p.deferred = nil
	for _, h := range deferred {
		if !h.gone {
			h.proceed(s)
		}
	}
	for len(p.waiting) > 0 && p.tokens >= 1 && s.fetchesMore() && !s.clogged() {
		h := p.waiting[0]
		p.waiting[0] = nil
		if p.waiting = p.waiting[1:]; h.gone {
			continue
		}
		p.begin()
		p.running++
		h.start(s)
	}
	s.fetchDelayed()
	if len(p.opening) == 0 {
		p.opening = nil
	}
	if len(p.waiting) == 0 {
		p.waiting = nil
	}
}

// fetchesMore reports whether another fetch may begin, by the fetches that run. A comparison sends its first message
// when its set is built. At a learnt pace the next fetch waits for that.
func (s *Session) fetchesMore() bool {
	return s.pace.running < s.limits.Fetches && (s.pace.learnt == 0 || len(s.builds) == 0)
}

// nextStart returns when startFetches can do more.
func (s *Session) nextStart() int64 {
	p := &s.pace
	switch {
	case s.ended || len(s.leaving)+len(p.opening)+len(p.waiting)+len(p.deferred)+len(s.slots.waiting)+len(s.draining.lost)+len(s.delayed.queue) == 0:
		return never
	case s.now < p.cooldownUntil:
		return p.cooldownUntil
	case s.clogged():
		return s.now + cloggedTime
	case len(p.opening) > 0 && p.tokens < 1, len(p.waiting) > 0 && s.fetchesMore(), len(s.delayed.queue) > 0 && p.tokens < 1,
		len(p.deferred)+len(s.slots.waiting)+len(s.draining.lost) > 0 && p.waits():
		return min(s.nextHandover(), s.now+p.wait(s.limits))
	}
	return s.nextHandover() // or when something ends
}

// cloggedTime is how soon a session looks whether the relay has taken what it was sent.
const cloggedTime = 50

// cancel takes out a subscription that is not opened any more. The closings behind it now wait for all
// subscriptions that were ordered since: one of these may take its place.
func (p *pace) cancel(sub *subscription) {
	i := slices.IndexFunc(p.opening, func(t turn) bool { return t.open == sub })
	if i < 0 {
		return
	}
	p.opening = slices.Delete(p.opening, i, i+1)
	slices.SortStableFunc(p.opening[i:], func(a, b turn) int {
		switch {
		case (a.close == nil) == (b.close == nil):
			return 0
		case a.close == nil:
			return -1
		}
		return 1
	})
}

// prune removes fetches that the strategy has cancelled. While the relay rests, a strategy
// may order and cancel without end.
func (p *pace) prune(l *Limits) {
	if len(p.waiting) >= l.Waiting {
		p.waiting = slices.DeleteFunc(p.waiting, func(h *fetch) bool { return h.gone })
	}
}
