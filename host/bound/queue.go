package bound

import (
	"context"
	"net/netip"
	"sync"
)

// Queue shares a few places to work among networks. Those who wait get a place by network:
// each neighbourhood in turn, and within it in the order in which they came. Clients without a
// network are one network here. It is safe for concurrent use.
type Queue struct {
	spec  Spec
	slots int

	mu      sync.Mutex // guards the fields below
	working int
	waiting int64
	lines   map[netip.Prefix]*line
	next    []*line // the lines that are not empty, in the order of their queue
}

// line is what waits of one neighbourhood.
type line struct {
	prefix  netip.Prefix
	waiters []chan struct{}
}

// NewQueue returns a queue for a number of places. Spec.Total is how many requests may wait, and
// Spec.Network how many of one neighbourhood.
func NewQueue(spec Spec, slots int) *Queue {
	if spec.Network == 0 {
		spec.Network = Share(spec.Total)
	}
	if err := spec.check(); err != nil {
		panic(err)
	}
	return &Queue{spec: spec, slots: slots, lines: make(map[netip.Prefix]*line)}
}

// Spec returns the row of the queue in the table of bounds.
func (q *Queue) Spec() Spec { return q.spec }

// Acquire waits for a place, which the caller releases. It fails with [ErrShare] or [ErrFull] if
// too many wait already, and with the context's error when that ends.
func (q *Queue) Acquire(ctx context.Context, by Holder) error {
	ready, err := q.enqueue(by)
	if err != nil || ready == nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		if !q.dequeue(by, ready) {
			q.Release() // its turn came meanwhile
		}
		return context.Cause(ctx)
	}
}

// enqueue takes a place, or puts a waiter at the end of its line. A nil channel is a place.
func (q *Queue) enqueue(by Holder) (ready chan struct{}, err error) {
	_, wide := Networks(by.Addr)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working < q.slots && q.waiting == 0 {
		q.working++
		return nil, nil
	}
	l := q.lines[wide]
	if l != nil && int64(len(l.waiters)) >= q.spec.Network {
		return nil, ErrShare
	}
	if q.waiting >= q.spec.Total {
		return nil, ErrFull
	}
	if l == nil {
		l = &line{prefix: wide}
		q.lines[wide] = l
		q.next = append(q.next, l)
	}
	ready = make(chan struct{})
	l.waiters = append(l.waiters, ready)
	q.waiting++
	return ready, nil
}

// dequeue removes a waiter that has gone, and reports whether it still waited.
func (q *Queue) dequeue(by Holder, ready chan struct{}) bool {
	_, wide := Networks(by.Addr)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[wide]
	if l == nil {
		return false
	}
	for i, w := range l.waiters {
		if w != ready {
			continue
		}
		l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
		q.waiting--
		if len(l.waiters) == 0 {
			q.remove(l)
		}
		return true
	}
	return false
}

// remove drops an empty line. REQUIRES: mu.
func (q *Queue) remove(l *line) {
	delete(q.lines, l.prefix)
	for i, other := range q.next {
		if other == l {
			q.next = append(q.next[:i], q.next[i+1:]...)
			return
		}
	}
}

// Release gives a place back. The line whose turn it is gets it.
func (q *Queue) Release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.next) == 0 {
		q.working--
		return
	}
	l := q.next[0]
	ready := l.waiters[0]
	l.waiters = l.waiters[1:]
	q.waiting--
	q.next = q.next[1:]
	if len(l.waiters) == 0 {
		delete(q.lines, l.prefix)
	} else {
		q.next = append(q.next, l)
	}
	close(ready)
}

// Busy returns how many places are taken.
func (q *Queue) Busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.working
}
