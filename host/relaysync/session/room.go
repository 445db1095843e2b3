package session

import (
	"slices"

	"talon/sdk/abi"
)

// room is the place for requests on the relay: it may take only so many at once, as it
// says (NIP-11), or as it showed.
type room struct {
	open    int // requests that were sent and not ended
	lasting int // of them, those that stay open
	waiting []*request
}

// maxRefusals is how often a request is sent again that the relay had no room for.
const maxRefusals = 5

func (o *room) add(r *request) {
	o.open++
	if r.lasting {
		o.lasting++
	}
}

func (o *room) remove(r *request) {
	o.open--
	if r.lasting {
		o.lasting--
	}
}

// cancel takes a request out that was not sent.
func (o *room) cancel(r *request) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w *request) bool { return w == r })
}

// has reports whether a request may be sent. Those that stay open leave some room for
// those that do not.
func (o *room) has(r *request, most int) bool {
	switch {
	case most == 0:
		return true
	case o.open >= most:
		return false
	case r.lasting:
		return o.lasting < max(1, most-2, most/2)
	}
	return true
}

// fillRoom sends requests that wait, in the order in which they were made.
func (s *Session) fillRoom() {
	o := &s.room
	if s.now < s.pace.cooldownUntil {
		return
	}
	for i := 0; i < len(o.waiting); {
		r := o.waiting[i]
		if !o.has(r, int(s.caps.MaxSubscriptions)) {
			s.check(r.asked + s.roomTime(r))
			i++
			continue
		}
		o.waiting = slices.Delete(o.waiting, i, i+1)
		s.sendRequest(r)
	}
}

// roomTime is how long a request waits for room. What stays open may keep others
// waiting for ever: the strategy is to know.
func (s *Session) roomTime(r *request) int64 {
	if r.lasting {
		return s.limits.AnswerTime
	}
	return s.limits.PageTime
}

// giveUpRoom ends requests that have waited too long.
func (s *Session) giveUpRoom() {
	for _, r := range slices.Clone(s.room.waiting) {
		if by := r.asked + s.roomTime(r); s.now < by {
			s.check(by)
		} else if !r.closed {
			s.fail(r, abi.ClassLimit, "the relay takes no more subscriptions")
		}
	}
}

// noRoom takes the news that the relay has refused a request because there are too many
// already. It is sent again when another one has ended. most is how many the relay says
// that it takes; 0: it does not say.
func (s *Session) noRoom(r *request, most int, reason string) {
	settled := r.settled
	if r.sent != 0 {
		s.withdraw(r)
	}
	if most <= 0 {
		most = s.room.open
	}
	if most > 0 {
		s.learnRoom(most)
	} else {
		s.pace.coolDown(s.now + fullTime) // it is others who fill it
	}
	if r.refusals++; settled || r.filters == nil || r.refusals > maxRefusals {
		// It was taken for open: the strategy is to know what it may have missed.
		r.closed = true
		r.owner.refused(s, r, abi.ClassLimit, reason)
		return
	}
	r.asked = s.now
	s.room.waiting = slices.Insert(s.room.waiting, 0, r)
	s.check(s.now + s.roomTime(r))
}

// fullTime is how long a relay is left alone that has no room for a single request.
const fullTime = 5000

// learnRoom notes how many requests the relay takes at once. If that is far fewer than
// the strategy was told when the connection was made, or no more than what stays open, so
// that nothing can be fetched, there is to be another one soon: the strategy asks for less.
func (s *Session) learnRoom(most int) {
	if known := int(s.caps.MaxSubscriptions); known != 0 && most >= known {
		return
	}
	s.caps.MaxSubscriptions = uint32(most)
	s.learnt()
	if told := int(s.cfg.Capabilities.MaxSubscriptions); s.restartAt == 0 && (told == 0 || 4*most <= 3*told || s.room.lasting >= most) {
		s.restartAt = s.now + restartTime
		s.check(s.restartAt)
	}
}

// restartTime is how long a session goes on that has learnt how little the relay takes:
// it may learn more.
const restartTime = 2000
