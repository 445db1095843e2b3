package relaymodel

import (
	"math"

	"talon/host"
	"talon/internal/heap"
)

// Keeping describes which events a relay keeps. It does not concern replaceable and addressable
// events: a relay takes them, and keeps their newest versions.
type Keeping struct {
	Seconds float64 `key:"seconds" max:"1000000000" doc:"age, by created_at, at which an event is removed; an older one is refused; 0: events stay"`
	Refuses float64 `key:"refuses" max:"1" doc:"share of events that are refused"`
	Text    string  `key:"refuses-text" doc:"text of the OK, false, to these"`
	Drops   float64 `key:"drops" max:"1" doc:"share of events that are answered with an OK, true, and sent to subscribers, but not stored"`
}

// Fate is what becomes of an event at a relay.
type Fate int

const (
	Stored  Fate = iota
	Refused      // by its share
	TooOld       // older than the relay keeps events
	Dropped      // sent to subscribers, and not stored
)

// Fate returns what becomes of an event that reaches a relay with a seed at a time, in unix
// milliseconds. If it is stored, the relay removes it at the second time; [math.MaxInt64] is never.
func (p *Profile) Fate(seed uint64, e *host.Event, now int64) (Fate, int64) {
	k := &p.Keep
	if c := e.Kind.Class(); c == host.Replaceable || c == host.Addressable {
		return Stored, math.MaxInt64
	}
	until := int64(math.MaxInt64)
	if k.Seconds > 0 {
		if until = e.CreatedAt*1000 + millis(k.Seconds); until <= now {
			return TooOld, 0
		}
	}
	switch {
	case k.Refuses > 0 && draw(seed, drawRefused, e.ID) < k.Refuses:
		return Refused, 0
	case k.Drops > 0 && draw(seed, drawDropped, e.ID) < k.Drops:
		return Dropped, 0
	}
	return Stored, until
}

// Loses reports whether a relay may lose events that it was sent, or refuse them.
func (p *Profile) Loses() bool {
	return p.Keep.Seconds > 0 || p.Keep.Refuses > 0 || p.Keep.Drops > 0
}

// expiry is when a relay removes a stored event.
type expiry struct {
	at int64
	id host.ID
}

// newExpiries returns a queue, the next one first.
func newExpiries() heap.Heap[expiry] {
	return heap.New(func(a, b expiry) bool { return a.at < b.at }, nil)
}

// expireAt has a stored event removed at a time.
func (r *Relay) expireAt(id host.ID, at int64) {
	if at == math.MaxInt64 {
		return
	}
	r.expiries.Push(expiry{at, id})
	if r.expiries.Top().id == id {
		r.clock.At(at, r.expire)
	}
}

// expire removes the events whose time has come.
func (r *Relay) expire() {
	for r.expiries.Len() > 0 && r.expiries.Top().at <= r.clock.Now() {
		r.store.Delete(r.expiries.Pop().id)
	}
	if r.expiries.Len() > 0 {
		r.clock.At(r.expiries.Top().at, r.expire)
	}
}
