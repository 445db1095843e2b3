package web

import (
	"sync"
	"time"

	"talon/host"
)

const (
	// maxChanges bounds the changes that are known, and maxChangeBytes their events.
	maxChanges     = 8192
	maxChangeBytes = 8 << 20
)

// changes are the events that were published, removed, held or released lately. Changes are
// numbered from 1 on.
type changes struct {
	now func() time.Time

	mu    sync.Mutex // guards the fields below
	list  []*host.Event
	first uint64 // number of the first of the list
	bytes int
	asked time.Time // when somebody asked for the number last
}

func newChanges(now func() time.Time) *changes { return &changes{now: now, first: 1} }

// next returns the number that the next change will have. A page that is made afterwards shows
// all changes before it.
func (c *changes) next() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = c.now()
	return c.first + uint64(len(c.list))
}

// since returns the changes from a number on. It reports false if they are not all known.
func (c *changes) since(number uint64) ([]*host.Event, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < c.first {
		return nil, false
	}
	// Entries are never changed, so the caller may read them without the lock.
	return c.list[min(number-c.first, uint64(len(c.list))):], true
}

// add adds a change. Nothing is kept while nobody looks at pages.
func (c *changes) add(e *host.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, e)
	c.bytes += len(e.JSON)
	drop := 0
	if len(c.list) > maxChanges || c.bytes > maxChangeBytes {
		// Half of them go, so that the rest is copied seldom.
		for drop < len(c.list) && (len(c.list)-drop > maxChanges/2 || c.bytes > maxChangeBytes/2) {
			c.bytes -= len(c.list[drop].JSON)
			drop++
		}
	}
	if c.now().Sub(c.asked) > keepFor {
		drop, c.bytes = len(c.list), 0
	}
	if drop == 0 {
		return
	}
	c.first += uint64(drop)
	if drop == len(c.list) {
		c.list = nil
		return
	}
	c.list = append(make([]*host.Event, 0, len(c.list)), c.list[drop:]...)
}

// Publish takes note of events that are stored, in the order of commits.
func (h *Handler) Publish(events []host.Published) {
	for i := range events {
		if events[i].Seq > 0 {
			h.changes.add(events[i].Event)
			h.prepareAfter(events[i].Event)
		}
	}
}

// Follow takes note of events that were removed, and of changes in purgatory.
func (h *Handler) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, e := range removed {
		h.changes.add(e)
	}
	for i := range held {
		h.changes.add(held[i].Event)
	}
}
