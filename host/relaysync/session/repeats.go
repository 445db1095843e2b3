package session

import (
	"encoding/binary"

	"talon/host"
	"talon/sdk/abi"
	"talon/sdk/grasp"
)

// repeats counts new events that subscriptions brought in vain: another relay was faster.
// An event that matches two subscriptions comes twice from one relay, which says nothing
// about others.
type repeats struct {
	recent [recentEvents]uint64 // beginnings of ids of the relay's latest new events
	next   int                  // of recent, the oldest
	events uint32
	bytes  int64
	due    int64 // when they are reported
}

// recentEvents is how many events are remembered to tell that one relay sends them twice,
// and repeatsEvery is the time from one report to the next.
const (
	recentEvents = 256
	repeatsEvery = 10_000
)

// first notes a new event of the relay, and reports whether it comes for the first time.
func (p *repeats) first(id host.ID) bool {
	key := binary.BigEndian.Uint64(id[:])
	for _, k := range p.recent {
		if k == key {
			return false
		}
	}
	p.recent[p.next] = key
	p.next = (p.next + 1) % recentEvents
	return true
}

// tells reports whether a repeat of an event says that a relay has what others have. Maintainers publish
// announcements and states at all relays of their repository.
func tells(kind host.Kind) bool { return kind != grasp.KindAnnouncement && kind != grasp.KindState }

// repeated counts a new event that was here already.
func (s *Session) repeated(bytes int) {
	p := &s.repeats
	if p.events == 0 {
		p.due = max(p.due, s.now+1000)
		s.checkNoLater(p.due)
	}
	p.events++
	p.bytes += int64(bytes)
}

// reportRepeats tells the loop, when it is time.
func (s *Session) reportRepeats() {
	p := &s.repeats
	switch {
	case p.events == 0:
	case s.now < p.due:
		s.checkNoLater(p.due)
	default:
		s.notify(&Repeats{abi.Repeats{Relay: s.relay, Events: p.events, Bytes: p.bytes}})
		p.events, p.bytes, p.due = 0, 0, s.now+repeatsEvery
	}
}
