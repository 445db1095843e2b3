package negentropy

import (
	"cmp"
	"sort"
	"unsafe"

	"talon/host"
)

// Item is an event as the protocol has it.
type Item struct {
	CreatedAt uint64 // unix seconds, below 2^63
	ID        host.ID
}

const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
	chunkMask = chunkLen - 1

	// sumEvery divides chunkLen: the items between two sums are in one chunk.
	sumEvery = 64
)

// chunk holds up to chunkLen items; all chunks of a list but the last are full.
type chunk struct {
	times []uint64
	ids   []host.ID

	// sums[k] is the sum of all ids of the set before the item k*sumEvery of the
	// chunk. A list that is not a set has none.
	sums []sum
}

// items is a list of items. As a sort.Interface it orders them as the protocol
// does.
type items struct {
	chunks []chunk
	n      int
}

func (s *items) time(i int) uint64 { return s.chunks[i>>chunkBits].times[i&chunkMask] }
func (s *items) id(i int) *host.ID { return &s.chunks[i>>chunkBits].ids[i&chunkMask] }

func (s *items) Len() int { return s.n }

func (s *items) Less(i, j int) bool { return s.compare(i, j) < 0 }

func (s *items) Swap(i, j int) {
	a, b := &s.chunks[i>>chunkBits], &s.chunks[j>>chunkBits]
	i, j = i&chunkMask, j&chunkMask
	a.times[i], b.times[j] = b.times[j], a.times[i]
	a.ids[i], b.ids[j] = b.ids[j], a.ids[i]
}

func (s *items) compare(i, j int) int {
	if c := cmp.Compare(s.time(i), s.time(j)); c != 0 {
		return c
	}
	return compareIDs(s.id(i), s.id(j))
}

// Set is an immutable list of items, ordered by time, then id, each once. It is
// made by a [Builder], or by [Set.With] of another. The zero Set is empty.
type Set struct {
	items items
}

// Len returns the number of items.
func (s *Set) Len() int { return s.items.n }

// Bytes returns the memory that the set holds, in bytes, what it shares with others
// included: 40 an item, and 616 for each 1,024 items of sums and what holds it all
// together.
func (s *Set) Bytes() int {
	n := int(unsafe.Sizeof(*s)) + cap(s.items.chunks)*int(unsafe.Sizeof(chunk{}))
	for i := range s.items.chunks {
		c := &s.items.chunks[i]
		n += cap(c.times)*int(unsafe.Sizeof(uint64(0))) + cap(c.ids)*int(unsafe.Sizeof(host.ID{})) + cap(c.sums)*int(unsafe.Sizeof(sum{}))
	}
	return n
}

// Each calls yield for each item, in order.
func (s *Set) Each(yield func(Item)) {
	for _, c := range s.items.chunks {
		for i, id := range c.ids {
			yield(Item{CreatedAt: c.times[i], ID: id})
		}
	}
}

// fingerprint returns the fingerprint of the items [lo, hi).
func (s *Set) fingerprint(lo, hi int) fingerprint {
	t := s.sum(lo, hi)
	return t.fingerprint(hi - lo)
}

func (s *Set) sum(lo, hi int) sum {
	var t sum
	if hi-lo <= sumEvery/2 {
		for lo < hi {
			ids := s.run(lo, hi)
			t.addAll(ids)
			lo += len(ids)
		}
		return t
	}
	t = s.prefix(hi)
	before := s.prefix(lo)
	t.sub(&before)
	return t
}

// prefix returns the sum of the ids of the items [0, i), from the nearest sum.
// REQUIRES: the set is not empty.
func (s *Set) prefix(i int) sum {
	at := min(i>>chunkBits, len(s.items.chunks)-1)
	c := &s.items.chunks[at]
	i -= at << chunkBits
	k := min((i+sumEvery/2)/sumEvery, len(c.sums)-1)
	t := c.sums[k]
	if at = k * sumEvery; at <= i {
		t.addAll(c.ids[at:i])
		return t
	}
	var after sum
	after.addAll(c.ids[i:at])
	t.sub(&after)
	return t
}

// run returns the ids of the items [lo, hi), up to the end of lo's chunk.
func (s *Set) run(lo, hi int) []host.ID {
	c := &s.items.chunks[lo>>chunkBits]
	first := lo & chunkMask
	return c.ids[first:min(first+hi-lo, len(c.ids))]
}

// appendIDs appends the ids of the items [lo, hi).
func (s *Set) appendIDs(b []byte, lo, hi int) []byte {
	for ; lo < hi; lo++ {
		b = append(b, s.items.id(lo)[:]...)
	}
	return b
}

// find returns the index of the first item from index from on that is not below
// the bound. It starts near from: the ranges of a message are adjacent, and most
// of them small.
func (s *Set) find(from int, b *bound) int {
	if b.time == infinity {
		return s.items.n
	}
	lo, hi := from, from
	for step := 1; hi < s.items.n && s.below(hi, b); step *= 2 {
		lo = hi + 1
		hi += step
	}
	hi = min(hi, s.items.n)
	return lo + sort.Search(hi-lo, func(i int) bool { return !s.below(lo+i, b) })
}

// below reports whether item i is below the bound.
func (s *Set) below(i int, b *bound) bool {
	if t := s.items.time(i); t != b.time {
		return t < b.time
	}
	return compareIDs(s.items.id(i), &b.id) < 0
}
