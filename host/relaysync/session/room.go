package session

import (
	"slices"

	"talon/host"
	"talon/sdk/abi"
)

// subscriptionSlots limits concurrent requests on the relay, and the values of their filters: to
// what the relay advertises (NIP-11), or has shown.
type subscriptionSlots struct {
	open, values           int // requests that were sent and not ended; values of their filters
	lasting, lastingValues int // of them, those that stay open
	waiting                []*request
}

// maxRefusals is how often a request is sent again that the relay had no room for.
const maxRefusals = 5

func (o *subscriptionSlots) add(r *request) { o.count(r, 1) }

func (o *subscriptionSlots) remove(r *request) { o.count(r, -1) }

func (o *subscriptionSlots) count(r *request, sign int) {
	o.open += sign
	o.values += sign * r.values
	if r.lasting {
		o.lasting += sign
		o.lastingValues += sign * r.values
	}
}

// cancel takes a request out that was not sent.
func (o *subscriptionSlots) cancel(r *request) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w *request) bool { return w == r })
}

// lastingLimit is how many requests that stay open leave room for those that do not, at a relay that
// takes a number of requests.
func lastingLimit(limit int) int { return max(1, limit-2, limit/2) }

// has reports whether a request may be sent. Those that stay open leave some room for
// those that do not. A subscription that brings stored events first may be one that ends when they
// are here. Until then it takes the room of a fetch. A limit of 0 is none.
func (o *subscriptionSlots) has(r *request, limit, values int) bool {
	switch {
	case limit > 0 && o.open >= limit, values > 0 && o.open > 0 && o.values+r.values > values:
		return false
	case r.live && limit > 0 && o.lasting >= lastingLimit(limit):
		return false
	case r.lasting && values > 0 && o.lasting > 0 && o.lastingValues+r.values > values-values/8:
		return false
	}
	return true
}

// fillSlots sends requests that wait, in the order in which they were made.
func (s *Session) fillSlots() {
	o := &s.slots
	if s.now < s.pace.cooldownUntil {
		return
	}
	if s.pace.learnt > 0 {
		// Live requests go first: what is stored can come later.
		slices.SortStableFunc(o.waiting, func(a, b *request) int {
			switch {
			case a.live == b.live:
				return 0
			case a.live:
				return -1
			}
			return 1
		})
	}
	for i := 0; i < len(o.waiting) && !s.clogged(); {
		r := o.waiting[i]
		if s.pace.waits() {
			s.pace.held = s.now
			return
		}
		if !o.has(r, int(s.caps.MaxSubscriptions), int(s.caps.MaxValues)) {
			if r.lasting && s.cutHandovers() {
				continue
			}
			s.checkNoLater(s.roomBy(r))
			i++
			continue
		}
		o.waiting = slices.Delete(o.waiting, i, i+1)
		s.sendRequest(r)
	}
}

// overTime is how long a subscription stays open, after its stored events, that has the room of fetches.
const overTime = 5000

// endOver ends subscriptions that stay open in the room of fetches.
func (s *Session) endOver() {
	limit := int(s.caps.MaxSubscriptions)
	if limit <= 0 || s.slots.lasting <= lastingLimit(limit) {
		return
	}
	list := s.requestsInOrder(func(r *request) bool { return r.lasting && !r.live && r.settled })
	for _, r := range slices.Backward(list) {
		switch by := r.opened + overTime; {
		case s.slots.lasting <= lastingLimit(limit):
			return
		case s.now < by:
			s.checkNoLater(by)
		default:
			s.fail(r, abi.ClassLimit, "the relay has no room for more subscriptions")
		}
	}
}

// nextSlotCheck is how long a request waits for room. Then it fails: lasting requests may
// keep it waiting for ever, and the strategy must know.
func (s *Session) nextSlotCheck(r *request) int64 {
	if r.lasting {
		return s.limits.AnswerTime
	}
	return s.limits.PageTime
}

// roomBy returns when a request that waits for room fails. While the relay rests, and while the session waits
// for the relay's pace, its room is not known.
func (s *Session) roomBy(r *request) int64 {
	return max(r.asked, s.pace.cooldownUntil, s.pace.held) + s.nextSlotCheck(r)
}

// giveUpSlot ends requests that have waited too long.
func (s *Session) giveUpSlot() {
	for _, r := range slices.Clone(s.slots.waiting) {
		if by := s.roomBy(r); s.now < by {
			s.checkNoLater(by)
		} else if !r.closed {
			s.fail(r, abi.ClassLimit, "the relay has no room for more subscriptions")
		}
	}
}

// noRoom handles the refusal of a request because the relay has too many already, or too
// many values in them. The session sends it again when another one has ended. limit is the
// number that the relay says it takes, or 0 if it does not say.
func (s *Session) noRoom(r *request, what refusal, limit int, reason string) {
	settled := r.settled
	if r.sent != 0 {
		s.withdraw(r)
	}
	if sub, ok := r.owner.(*subscription); ok && sub.gone {
		r.closed = true // it was about to be closed
		s.heldLost()
		s.oweMissed(r)
		return
	}
	cut := s.cutHandovers()
	if cut && limit <= 0 && r.refusals < maxRefusals && !settled && r.filters != nil {
		r.refusals++
		s.waitFirst(r) // there may be room now, and the number says nothing
		return
	}
	if limit <= 0 {
		limit = s.slots.open
		if what == refusedValues {
			limit = s.slots.values
		}
	}
	switch {
	case limit <= 0:
		s.pace.coolDown(s.now + fullTime) // it is others who fill it
	case what == refusedValues:
		s.learnValues(limit)
	default:
		s.learnSlots(limit)
	}
	if r.refusals++; settled || r.filters == nil || r.refusals > maxRefusals || what == refusedValues && r.values > limit {
		// The strategy may have taken it for open, and must know that it may have missed
		// events.
		r.closed = true
		r.owner.refused(s, r, abi.ClassLimit, reason)
		return
	}
	s.waitFirst(r)
}

// waitFirst has a request wait for room before all others.
func (s *Session) waitFirst(r *request) {
	r.asked = s.now
	r.waitsForRoom()
	s.slots.waiting = slices.Insert(s.slots.waiting, 0, r)
	s.checkNoLater(s.now + s.nextSlotCheck(r))
}

// fullTime is how long a relay is left alone that has no room for a single request.
const fullTime = 5000

// learnSlots records how many concurrent requests the relay takes.
func (s *Session) learnSlots(limit int) {
	s.learnLimit(&s.caps.MaxSubscriptions, s.cfg.Capabilities.MaxSubscriptions, limit, s.slots.lasting)
}

// learnValues records how many values the relay takes in all requests together.
func (s *Session) learnValues(limit int) {
	s.learnLimit(&s.caps.MaxValues, s.cfg.Capabilities.MaxValues, limit, s.slots.lastingValues)
}

// learnLimit records a limit of the relay. If that is far less than the strategy knew when
// the connection was made, or no more than what stays open, so that nothing can be fetched,
// the session begins again: the strategy then asks for less. A session waits twice as long as the one
// before it, since a relay may lower its limit again and again.
func (s *Session) learnLimit(known *uint32, reported uint32, limit, lasting int) {
	if *known != 0 && limit >= int(*known) {
		return
	}
	*known = uint32(limit)
	s.learnt()
	if s.restartAt == 0 && (reported == 0 || 4*limit <= 3*int(reported) || lasting >= limit) {
		s.restartAt = s.now + restartTime<<min(s.cfg.Restarts, maxRestartShift)
		s.checkNoLater(s.restartAt)
	}
}

// tooManyFilters takes the news that a request has more filters than the relay takes. limit
// is how many the relay says that it takes; 0: it does not say.
func (s *Session) tooManyFilters(r *request, limit int) {
	has := len(r.filters)
	if limit <= 0 || limit >= has {
		limit = max(s.width.filters, 1)
	}
	if known := int(s.caps.MaxFilters); has > limit && (known == 0 || limit < known) {
		s.caps.MaxFilters = uint32(limit)
		s.learnt()
	}
}

// limitTooHigh learns from the refusal of a request that asks for more events than the relay gives
// in one answer. It returns the class of the refusal. limit is how many the relay says that it
// gives; 0: it does not say. A session that has learnt a limit always begins again: the strategy
// takes an answer with fewer events than the limit it knows for whole.
func (s *Session) limitTooHigh(r *request, limit int, class uint32) uint32 {
	asked := 0
	for i := range r.filters {
		asked = max(asked, r.filters[i].Limit)
	}
	if limit <= 0 || limit >= asked {
		limit = asked / 2
	}
	known := s.caps.MaxLimit
	if limit > 0 {
		s.learnLimit(&s.caps.MaxLimit, s.cfg.Capabilities.MaxLimit, limit, limit)
	}
	if s.caps.MaxLimit != known {
		return abi.ClassError // no smaller request is needed, but a lower limit
	}
	return s.tooWide(r, max(class, abi.ClassUnsupported))
}

// restartTime is how long a session goes on that has learnt how little the relay takes:
// it may learn more. The time doubles up to an hour.
const (
	restartTime     = 2000
	maxRestartShift = 11
)

// size is what is known of the longest message that the relay takes.
type size struct {
	fit  int // bytes of the longest that was answered
	over int // of the shortest that was refused; 0: none was
}

// minMessage is what every relay takes.
const minMessage = 1 << 10

func (z *size) fits(bytes int) { z.fit = max(z.fit, bytes) }

// largest returns the longest message that the relay has not answered.
func (s *Session) largest() (r *request, n *reconciliation, bytes int) {
	for _, o := range s.openRequests() {
		if o.filters != nil && o.bytes > bytes {
			r, bytes = o, o.bytes
		}
	}
	for _, h := range s.runningFetches() {
		if o := h.reconciliation; o != nil && o.wire != "" && o.rounds == 0 && o.bytes > bytes {
			r, n, bytes = nil, o, o.bytes
		}
	}
	return r, n, bytes
}

// tooLarge handles the refusal of a message that was too large: the longest one that is not
// answered. Its sender then makes it smaller. limit is the longest that the relay says it
// takes, or 0 if it does not say.
func (s *Session) tooLarge(limit int, reason string) {
	r, n, bytes := s.largest()
	if bytes <= max(s.size.fit, minMessage) {
		return // it takes as much
	}
	s.learnSize(bytes, limit)
	switch {
	case r != nil:
		s.fail(r, abi.ClassTooMuch, reason)
	case n != nil:
		n.tooLarge(s, reason)
	}
}

// learnSize halves the way between what the relay takes and what it does not.
func (s *Session) learnSize(over, limit int) {
	z := &s.size
	if z.over == 0 || over < z.over {
		z.over = over
	}
	if limit <= z.fit || limit >= z.over {
		limit = (z.fit + z.over) / 2
	}
	limit = max(limit, minMessage)
	if known := int(s.caps.MaxMessage); known == 0 || limit < known {
		s.caps.MaxMessage = uint32(limit)
		s.learnt()
	}
}

// Sizes returns the size of the longest message that the relay has answered. unanswered is
// the size of the longest recent one without an answer, if that is longer. Its size may be
// the reason if the relay closes the connection.
func (s *Session) Sizes(now int64) (answered, unanswered int) {
	r, n, bytes := s.largest()
	switch {
	case bytes <= s.size.fit:
	case r != nil && now-r.sent < lostTime, n != nil && now-n.heard < lostTime:
		unanswered = bytes
	}
	return s.size.fit, unanswered
}

// width is how many filters, and values in one of their lists, were answered at most.
type width struct{ filters, values int }

func widthOf(filters []host.Filter) width {
	w := width{filters: len(filters)}
	for i := range filters {
		f := &filters[i]
		w.values = max(w.values, len(f.IDs), len(f.Authors), len(f.Kinds))
		for k := range f.Tags {
			w.values = max(w.values, len(f.Tags[k].Values))
		}
	}
	return w
}

func (w *width) fits(filters []host.Filter) {
	o := widthOf(filters)
	w.filters, w.values = max(w.filters, o.filters), max(w.values, o.values)
}

// tooWide interprets a refusal without a reason. A request with more filters, or more
// values, than the relay has ever answered may be too much for it. Then its owner asks in
// smaller parts. A request of one filter with one value cannot get smaller.
func (s *Session) tooWide(r *request, class uint32) uint32 {
	w := widthOf(r.filters)
	if class == abi.ClassUnsupported && (w.filters > max(1, s.width.filters) || w.values > max(1, s.width.values)) {
		return abi.ClassTooMuch
	}
	return class
}

// learnt tells what the relay showed of itself.
func (s *Session) learnt() { s.notify(&Learnt{s.caps, s.pace.perMinute()}) }
