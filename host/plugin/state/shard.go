package state

import (
	"container/heap"
	"sync"

	"talon/host"
)

// The spaces of a plugin. The numbers are on disks.
const (
	keys    = 0
	buckets = 1
	spaces  = 2
)

// shard is a part of a plugin's state: what is said about one key waits only for
// its shard.
type shard struct {
	mu    sync.RWMutex
	space [spaces]space
	dirty []*item // what the disk does not have yet

	_ [64]byte // shards are on cache lines of their own
}

type space struct {
	items map[string]*item
	due   queue // those of items that expire
}

// item is a key with its value, or a bucket.
type item struct {
	key   string
	value []byte // of a key; nil for one that was deleted; replaced, never changed

	// until is when the item expires, in unix milliseconds, 0 for never. For
	// a bucket that is when it is full again, and all there is to know.
	until int64

	// due is what the queue sorts by. It may be earlier than until, so that
	// taking from a bucket does not move it in the queue.
	due int64

	queued int32 // its place in the queue, from 1; 0 if it is not there
	listed int32 // its place among the dirty, from 1; 0 if it is not there
	space  uint8
	stored bool // the disk may have a version of it
	saving bool // a save is under way that has it
}

// gone reports whether the key has been deleted, and waits for the disk to know.
func (it *item) gone() bool { return it.space == keys && it.value == nil }

func (it *item) expired(at int64) bool { return it.until != 0 && it.until <= at }

// live reports whether the item is there at a time, in unix milliseconds.
func (it *item) live(at int64) bool { return it != nil && !it.gone() && !it.expired(at) }

// size is what the item counts for.
func (it *item) size() int64 { return sizeOf(len(it.key), len(it.value)) }

// REQUIRES: s.mu is held for writing, in all methods from here on.

// expires sets when the item expires.
func (s *shard) expires(it *item, until int64) {
	it.until = until
	q := &s.space[it.space].due
	switch {
	case until == 0 && it.queued != 0:
		heap.Remove(q, int(it.queued-1))
	case until == 0:
	case it.queued == 0:
		it.due = until
		heap.Push(q, it)
	case until < it.due:
		it.due = until
		heap.Fix(q, int(it.queued-1))
	}
}

// first returns the item of the queue that expires first, nil if there is none.
func (q *queue) first() *item {
	for len(*q) > 0 {
		it := (*q)[0]
		if it.due == it.until {
			return it
		}
		it.due = it.until
		heap.Fix(q, 0)
	}
	return nil
}

// changed notes that the disk must hear of the item.
func (s *shard) changed(it *item) {
	if it.listed == 0 {
		s.dirty = append(s.dirty, it)
		it.listed = int32(len(s.dirty))
	}
}

// unlist takes the item out of the dirty.
func (s *shard) unlist(it *item) {
	if it.listed == 0 {
		return
	}
	last := s.dirty[len(s.dirty)-1]
	s.dirty[it.listed-1] = last
	last.listed = it.listed
	s.dirty[len(s.dirty)-1] = nil
	s.dirty = s.dirty[:len(s.dirty)-1]
	it.listed = 0
}

// drop forgets the item, here and now.
func (s *shard) drop(it *item) {
	if it.queued != 0 {
		heap.Remove(&s.space[it.space].due, int(it.queued-1))
	}
	s.unlist(it)
	delete(s.space[it.space].items, it.key)
}

// entry is what the disk is to know of the item.
func (it *item) entry(module string) host.StateEntry {
	e := host.StateEntry{Module: module, Space: it.space, Key: it.key, Value: it.value, Expires: it.until / 1000}
	if it.space == buckets {
		e.Value = putInt(it.until)
		e.Expires = (it.until-1)/1000 + 1 // not before it is full
	}
	return e
}

// queue is a heap of items, the first to expire on top.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].queued, q[j].queued = int32(i+1), int32(j+1)
}

// Push is for package heap.
func (q *queue) Push(x any) {
	it := x.(*item)
	*q = append(*q, it)
	it.queued = int32(len(*q))
}

// Pop is for package heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	it := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	it.queued = 0
	return it
}
