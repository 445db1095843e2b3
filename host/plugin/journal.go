package plugin

import (
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"talon/host"
)

// journal remembers the last decisions about events, to answer why.
type journal struct {
	mu    sync.Mutex // guards the fields below
	most  int
	ring  []entry // grows up to most
	next  int     // where the oldest is, once the ring is full
	where map[uint64]uint32
}

// entry is one decision.
type entry struct {
	event    host.ID
	at       int64 // unix seconds
	source   string
	ruling   host.Ruling
	number   int64 // of the generation that decided; 0: none did
	fuel     int64
	asked    []string // shared by all entries of a line-up
	opinions []Said   // nil for most
}

func newJournal(most int) *journal {
	return &journal{most: most, where: make(map[uint64]uint32)}
}

// add notes a decision. One that is taken again takes the place of the first.
func (j *journal) add(event *host.ID, q *question, opinions []opinion) {
	if j.most == 0 {
		return
	}
	e := entry{
		event: *event, at: q.now, source: q.source, ruling: q.ruling, fuel: q.fuel,
	}
	names, asked := q.names()
	e.asked = names[:asked]
	if len(e.ruling.Reason) > keepReason {
		e.ruling.Reason = strings.ToValidUTF8(strings.Clone(e.ruling.Reason[:keepReason]), "")
	}
	if q.by != nil {
		e.number = q.by.number
	}
	for i := range opinions {
		e.opinions = append(e.opinions, opinions[i].said())
	}
	short := shorten(event)
	j.mu.Lock()
	defer j.mu.Unlock()
	if at, ok := j.where[short]; ok && j.ring[at].event == *event {
		j.ring[at] = e
		return
	}
	at := j.next
	if len(j.ring) < j.most {
		at = len(j.ring)
		j.ring = append(j.ring, e)
	} else {
		old := shorten(&j.ring[at].event)
		if j.where[old] == uint32(at) {
			delete(j.where, old)
		}
		j.ring[at] = e
		j.next = (at + 1) % j.most
	}
	j.where[short] = uint32(at)
}

// keepDecisions is how long a decision can be asked about, if so many others do
// not come before.
const keepDecisions = 24 * time.Hour

// keepReason bounds what a module can make the journal hold.
const keepReason = 200

// find returns the last decision about an event that is remembered.
func (j *journal) find(event host.ID, now time.Time) (Why, bool) {
	j.mu.Lock()
	at, ok := j.where[shorten(&event)]
	var e entry
	if ok {
		e = j.ring[at]
	}
	j.mu.Unlock()
	if !ok || e.event != event || now.Sub(time.Unix(e.at, 0)) > keepDecisions {
		return Why{}, false
	}
	return Why{
		Event:  event.String(),
		At:     time.Unix(e.at, 0),
		Source: e.source,
		Ruling: Said{
			Plugin: e.ruling.Module, Generation: e.number, Action: e.ruling.Action.String(),
			Rule: e.ruling.Rule, Reason: e.ruling.Reason, Fuel: e.fuel,
		},
		Asked:  e.asked,
		Shadow: e.opinions,
	}, true
}

// shorten is what decisions are found by. An id is a hash: two that begin alike
// do not happen, and if they did, one would be forgotten.
func shorten(id *host.ID) uint64 { return binary.LittleEndian.Uint64(id[:]) }
