package state

import (
	"sync"

	"talon/host"
	"talon/internal/heap"
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
	due   heap.Heap[*item] // those of items that expire, the first on top
}

// item is a key with its value, or a bucket.
type item struct {
	key   string
	value []byte // of a key; nil for one that was deleted; replaced, never changed

	// until is when the item expires, in unix milliseconds, 0 for never. For a bucket that
	// is the time at which it is full again, and its whole state.
	until int64

	// due is what the queue sorts by. It may be earlier than until, so that
	// taking from a bucket does not move it in the queue.
	due int64

	// added is what a counter has gained since the last save, or what was taken from a bucket,
	// in milliseconds. It says nothing if set is true.
	added int64

	queued int32 // its place in the queue, from 1; 0 if it is not there
	listed int32 // its place among the dirty, from 1; 0 if it is not there
	space  uint8
	stored bool // the disk may have a version of it
	set    bool // the change is a value of its own, whatever the disk has
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
		q.Remove(int(it.queued - 1))
	case until == 0:
	case it.queued == 0:
		it.due = until
		q.Push(it)
	case until < it.due:
		it.due = until
		q.Fix(int(it.queued - 1))
	}
}

func newSpace() space {
	before := func(a, b *item) bool { return a.due < b.due }
	return space{map[string]*item{}, heap.New(before, func(it *item, place int) { it.queued = int32(place + 1) })}
}

// first returns the item that expires first, nil if none does.
func (sp *space) first() *item {
	for sp.due.Len() > 0 {
		it := sp.due.Top()
		if it.due == it.until {
			return it
		}
		it.due = it.until
		sp.due.Fix(0)
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

// remove forgets the item, here and now.
func (s *shard) remove(it *item) {
	if it.queued != 0 {
		s.space[it.space].due.Remove(int(it.queued - 1))
	}
	s.unlist(it)
	delete(s.space[it.space].items, it.key)
}

// entry returns the item in the form in which the disk stores it.
func (it *item) entry(module string) host.StateEntry {
	e := host.StateEntry{Module: module, Space: it.space, Key: it.key, Value: it.value, Expires: it.until / 1000, Merged: !it.set}
	if it.space == buckets {
		e.Value, e.Expires = bucketEntry(it.until)
	}
	return e
}

// bucketEntry returns the stored form of a bucket that is full at a time.
func bucketEntry(until int64) (value []byte, expires int64) {
	return putInt(until), (until-1)/1000 + 1 // not before it is full
}
