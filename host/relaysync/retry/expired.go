package retry

import (
	"container/list"

	"talon/host"
	"talon/internal/heap"
)

// Expired decides when purgatory gets an event again that expired there. A git server may be
// away for longer than purgatory holds an event, and relays show the event again only with the
// next check. The pauses grow with the time since the event came. So a short outage delays an
// event little, and an event whose data nobody pushes costs few searches.
//
// Invariants:
//
//  1. [Limits] bound the events and their bytes. If there is no room, the source that has most
//     events loses its oldest. That one comes back with the next check.
//  2. A day after it came an event is not tried any more, for a week.
//
// A set has no clock, lock or goroutine: one goroutine owns it.
type Expired struct {
	limits  Limits
	entries map[host.ID]*expired
	order   *list.List // of *expired, in the order of coming
	sources map[string]*list.List
	pausing heap.Heap[*expired]
	bytes   int // of the events that pause
}

type expired struct {
	id        host.ID
	source    string
	since     int64       // unix seconds: it came
	at        int64       // unix seconds: its pause is over
	event     *host.Event // nil unless it pauses
	all, mine *list.Element
	heapIndex int // in pausing
}

// Times in seconds. The shortest pause is as long as purgatory holds an event.
const (
	minPause    = 30 * 60
	maxPause    = 2 * 3600
	tryFor      = 24 * 3600
	rememberFor = 8 * 24 * 3600
)

// NewExpired returns an empty set.
func NewExpired(l Limits) *Expired {
	return &Expired{
		limits:  l,
		entries: make(map[host.ID]*expired),
		order:   list.New(),
		sources: make(map[string]*list.List),
		pausing: heap.New(func(a, b *expired) bool { return a.at < b.at }, func(x *expired, place int) { x.heapIndex = place }),
	}
}

// Held records that purgatory holds an event that came from a relay.
func (s *Expired) Held(id host.ID, source string, now int64) {
	if x := s.entries[id]; x != nil {
		s.resume(x)
		return
	}
	for len(s.entries) >= max(1, s.limits.Events) {
		s.removeOne()
	}
	x := &expired{id: id, source: source, since: now}
	s.entries[id] = x
	x.all = s.order.PushBack(x)
	if s.sources[source] == nil {
		s.sources[source] = list.New()
	}
	x.mine = s.sources[source].PushBack(x)
}

// Expire records that purgatory holds an event no more, although nothing took its place.
func (s *Expired) Expire(e *host.Event, now int64) {
	x := s.entries[e.ID]
	if x == nil || now-x.since >= tryFor || len(e.JSON) > s.limits.Bytes {
		return
	}
	s.resume(x)
	for s.bytes+len(e.JSON) > s.limits.Bytes {
		s.removeOne()
	}
	if s.entries[e.ID] != x {
		return // it had to give way itself
	}
	x.event, x.at = e, now+min(max(now-x.since, minPause), maxPause)
	s.bytes += len(e.JSON)
	s.pausing.Push(x)
}

// Forget removes an event that is stored, or that nobody wants any more.
func (s *Expired) Forget(id host.ID) {
	if x := s.entries[id]; x != nil {
		s.remove(x)
	}
}

// Next returns an event whose pause is over, and false if there is none.
func (s *Expired) Next(now int64) (Retry, bool) {
	for front := s.order.Front(); front != nil && now-front.Value.(*expired).since >= rememberFor; front = s.order.Front() {
		s.remove(front.Value.(*expired))
	}
	if s.pausing.Len() == 0 || s.pausing.Top().at > now {
		return Retry{}, false
	}
	x := s.pausing.Top()
	r := Retry{x.event, x.source}
	s.resume(x)
	return r, true
}

// resume ends the pause of an event.
func (s *Expired) resume(x *expired) {
	if x.event != nil {
		s.pausing.Remove(x.heapIndex)
		s.bytes -= len(x.event.JSON)
		x.event = nil
	}
}

// removeOne removes the oldest event of the source that has most. REQUIRES: there is one.
func (s *Expired) removeOne() { s.remove(largest(s.sources).Front().Value.(*expired)) }

func (s *Expired) remove(x *expired) {
	s.resume(x)
	delete(s.entries, x.id)
	s.order.Remove(x.all)
	if mine := s.sources[x.source]; mine.Len() == 1 {
		delete(s.sources, x.source)
	} else {
		mine.Remove(x.mine)
	}
}
