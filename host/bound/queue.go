package bound

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	"talon/host"
)

// Queue shares a few places to work among networks. Those who wait get a place by network:
// each neighbourhood in turn, and within it in the order in which they came. Clients without a
// network are one network here. It is safe for concurrent use.
//
// Known people wait in lines of their own, one for each key or neighbourhood, as long as they fit
// in the part for them. At least every second place goes to these lines, and more if most lines
// are theirs.
type Queue struct {
	spec  Spec
	slots int

	mu      sync.Mutex // guards the fields below
	working int
	waiting int64 // of them all
	known   ring
	others  ring
	credit  float64 // of known people for the next place: they get it from 1 on
}

// ring has the lines of known people, or of all others.
type ring struct {
	waiting int64
	lines   map[lineKey]*line
	next    []*line // the lines that are not empty, in the order of their turns
}

// lineKey is a proven key of a known person, or a neighbourhood.
type lineKey struct {
	key     host.PubKey
	network netip.Prefix
}

// line is what waits of one neighbourhood or key.
type line struct {
	lineKey
	waiters []chan struct{}
}

// place is where somebody waits.
type place struct {
	ring  *ring
	key   lineKey
	ready chan struct{} // closed when it has a place to work; nil if it has one already
}

// NewQueue returns a queue for a number of places. Spec.Total is how many requests may wait,
// Spec.Known how many of known people wait in lines of their own, and Spec.Network how many of
// one neighbourhood.
func NewQueue(spec Spec, slots int) *Queue {
	spec = spec.scaled()
	if spec.Network == 0 {
		spec.Network = Share(spec.Total)
	}
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Queue{spec: spec, slots: slots, known: ring{lines: make(map[lineKey]*line)}, others: ring{lines: make(map[lineKey]*line)}}
}

// Spec returns the row of the queue in the table of bounds.
func (q *Queue) Spec() Spec { return q.spec }

// Acquire waits for a place, which the caller releases. It fails with [ErrShare] or [ErrFull] if
// too many wait already, and with the context's error when that ends.
func (q *Queue) Acquire(ctx context.Context, by Holder) error {
	at, err := q.enqueue(by)
	if err != nil || at.ready == nil {
		return err
	}
	select {
	case <-at.ready:
		return nil
	case <-ctx.Done():
		if !q.dequeue(at) {
			q.Release() // its turn came meanwhile
		}
		return context.Cause(ctx)
	}
}

// TryAcquire takes a place, which the caller releases, if one is free and nobody waits for it. It does
// not wait.
func (q *Queue) TryAcquire() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working >= q.slots || q.waiting > 0 {
		return false
	}
	q.working++
	return true
}

// enqueue takes a place, or puts a waiter at the end of its line.
func (q *Queue) enqueue(by Holder) (at place, err error) {
	_, wide := Networks(by.Addr)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working < q.slots && q.waiting == 0 {
		q.working++
		return place{}, nil
	}
	at = place{ring: &q.others, key: lineKey{network: wide}}
	if by.Known && q.known.waiting < q.spec.Known {
		key := lineKey{key: by.Key}
		if by.Key == (host.PubKey{}) {
			key.network = wide
		}
		if q.known.length(key) < Share(q.spec.Known) {
			at = place{ring: &q.known, key: key}
		}
	}
	if at.ring == &q.others {
		switch {
		case q.others.length(at.key) >= q.spec.Network:
			return place{}, ErrShare
		case q.others.waiting >= q.spec.Total-q.spec.Known:
			return place{}, ErrFull
		}
	}
	at.ready = at.ring.add(at.key)
	q.waiting++
	return at, nil
}

// dequeue removes a waiter that has gone, and reports whether it still waited.
func (q *Queue) dequeue(at place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !at.ring.remove(at) {
		return false
	}
	q.waiting--
	return true
}

// length returns how many wait in a line.
func (r *ring) length(key lineKey) int64 {
	if l := r.lines[key]; l != nil {
		return int64(len(l.waiters))
	}
	return 0
}

// add puts a waiter at the end of its line.
func (r *ring) add(key lineKey) (ready chan struct{}) {
	l := r.lines[key]
	if l == nil {
		l = &line{lineKey: key}
		r.lines[key] = l
		r.next = append(r.next, l)
	}
	ready = make(chan struct{})
	l.waiters = append(l.waiters, ready)
	r.waiting++
	return ready
}

// remove removes a waiter, and reports whether it was there.
func (r *ring) remove(at place) bool {
	l := r.lines[at.key]
	if l == nil {
		return false
	}
	i := slices.Index(l.waiters, at.ready)
	if i < 0 {
		return false
	}
	l.waiters = slices.Delete(l.waiters, i, i+1)
	r.waiting--
	if len(l.waiters) == 0 {
		delete(r.lines, l.lineKey)
		r.next = slices.DeleteFunc(r.next, func(other *line) bool { return other == l })
	}
	return true
}

// pop returns the first waiter of the line whose turn it is. REQUIRES: a line.
func (r *ring) pop() (ready chan struct{}) {
	l := r.next[0]
	ready = l.waiters[0]
	l.waiters = l.waiters[1:]
	r.waiting--
	r.next = r.next[1:]
	if len(l.waiters) == 0 {
		delete(r.lines, l.lineKey)
	} else {
		r.next = append(r.next, l)
	}
	return ready
}

// Release gives a place back. The line whose turn it is gets it.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 {
		q.working--
		return
	}
	r := &q.others
	switch known, others := len(q.known.next), len(q.others.next); {
	case others == 0:
		r = &q.known
	case known > 0:
		if q.credit += max(0.5, float64(known)/float64(known+others)); q.credit >= 1 {
			q.credit--
			r = &q.known
		}
	}
	q.waiting--
	close(r.pop())
}

// Busy returns how many places are taken.
func (q *Queue) Busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working
}
