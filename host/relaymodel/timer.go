package relaymodel

import (
	"encoding/binary"

	"talon/host"
	"talon/internal/heap"
)

// timer is something that is due at a time.
type timer struct {
	at    int64
	seq   uint64
	what  happening
	conn  uint64
	index int
	frame []byte
	event *host.Event
}

type happening uint8

const (
	frameHandled happening = iota
	connEnds
	connIdle
	sessionIdle
	eventArrives
	eventSent
	answerGoesOn
	outageBegins
	outageEnds
)

// timers are what is due, the next on top; of the same time, what was scheduled first.
type timers struct {
	heap.Heap[timer]
	seq uint64
}

func newTimers() timers {
	return timers{Heap: heap.New(func(a, b timer) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }, nil)}
}

func (r *Relay) schedule(t timer) {
	r.timers.seq++
	t.seq = r.timers.seq
	r.timers.Push(t)
}

// advance does what is due until now, each thing at its own time.
func (r *Relay) advance(now int64) {
	for r.timers.Len() > 0 && r.timers.Top().at <= now {
		t := r.timers.Pop()
		r.now = max(r.now, t.at)
		r.fire(&t)
	}
	r.now = max(r.now, now)
}

func (r *Relay) fire(t *timer) {
	c := r.conn(t.conn)
	switch t.what {
	case frameHandled:
		if c != nil {
			r.handle(c, t.frame)
		}
	case connEnds:
		if c != nil {
			r.closeConn(c, r.profile.Connection.DropCode, "")
		}
	case connIdle:
		if c == nil {
			break
		}
		if due := c.heard + millis(r.profile.Connection.IdleSeconds); due > t.at {
			r.schedule(timer{at: due, what: connIdle, conn: t.conn})
			break
		}
		r.closeConn(c, 0, "")
	case sessionIdle:
		if c != nil {
			r.idle(c, t.frame)
		}
	case answerGoesOn:
		if c != nil {
			r.goOn(c)
		}
	case eventArrives:
		r.accept(t.event)
	case eventSent:
		r.sendLive(t.event)
	case outageBegins:
		o := &r.profile.Outages[t.index]
		r.schedule(timer{at: t.at + millis(o.ForSeconds), what: outageEnds, index: t.index})
		if o.EverySeconds > 0 {
			r.schedule(timer{at: t.at + millis(o.EverySeconds), what: outageBegins, index: t.index})
		}
		r.disconnectAll()
	case outageEnds: // status finds it no more
	}
}

func millis(seconds float64) int64 { return int64(seconds * 1000) }

// What is drawn of an event.
const (
	drawLate = iota + 1
	drawLost
	drawTwice
	drawOmitted
	drawForgedID
	drawForgedSig
	drawEose
)

// draw returns a number from 0 to below 1 that follows from the seed, the event and
// what it is for.
func (r *Relay) draw(what uint64, id host.ID) float64 {
	return float64(Mix(Mix(r.seed+what)^binary.LittleEndian.Uint64(id[8:]))>>11) / (1 << 53)
}

// Mix spreads the bits of a number (the finalizer of splitmix64).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
