package ingest

import (
	"time"

	"talon/host"
	"talon/internal/heap"
)

// lane is the entries of one source.
type lane struct {
	source  *host.Source
	class   *class
	author  host.PubKey // that makes the client known, if it has proven one
	payers  payers
	entries []*entry // from head on, in the order of Submit
	head    int
	next    int // the first entry that no worker has taken

	deciding int           // workers on entries of this lane
	used     time.Duration // virtual time
	key      laneKey       // of the heap, as it was when the lane was pushed, or moved in it
	average  time.Duration // moving average of the time of one decision
	module   string        // that the last slow decision waited for
	missed   int           // grows when decisions made ahead turn out stale, up to maxMissed
	queued   bool          // in a heap
	emptied  time.Time     // when the last entry went
}

const (
	// missedAhead is from where on a lane's events are decided only when their turn
	// comes: deciding them ahead would be done twice.
	missedAhead = 4
	maxMissed   = 16
)

func (l *lane) len() int { return len(l.entries) - l.head }

// isSlow reports whether decisions of this source take long.
func (l *lane) isSlow() bool { return l.average > slowAfter }

// ahead reports whether events of this source are decided before their turn.
func (l *lane) ahead() bool { return l.missed < missedAhead }

// laneHeap has the lane on top that has used the least time.
type laneHeap struct{ heap.Heap[*lane] }

func (h *laneHeap) push(l *lane) {
	l.key = l.currentKey()
	h.Push(l)
}

// first returns the lane that has used the least, nil if there is none. Before that it moves
// lanes that were charged while they were in the heap. Without this the clock would run ahead
// by that charge, and idle lanes with it.
func (h *laneHeap) first() *lane {
	for h.Len() > 0 {
		l := h.Top()
		key := l.currentKey()
		if !l.key.less(key) {
			return l
		}
		l.key = key
		h.Fix(0)
	}
	return nil
}

func newLaneHeap() laneHeap {
	return laneHeap{heap.New(func(a, b *lane) bool { return a.key.less(b.key) }, nil)}
}
