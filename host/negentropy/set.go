package negentropy

import (
	"cmp"
	"slices"
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

	// sums[k] is the sum of all ids of the set before the item k*sumEvery of the chunk. It is empty
	// in a list that is not a set.
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

func (s *items) reverse(lo, hi int) {
	for i, j := lo, hi-1; i < j; i, j = i+1, j-1 {
		s.Swap(i, j)
	}
}

// sortTies orders the items of each time by id. REQUIRES: ascending times.
func (s *items) sortTies() {
	for lo := 0; lo < s.n; {
		rose, fell := false, false
		hi := lo + 1
		for ; hi < s.n && s.time(hi) == s.time(lo); hi++ {
			c := compareIDs(s.id(hi), s.id(hi-1))
			rose = rose || c > 0
			fell = fell || c < 0
		}
		switch {
		case rose && fell:
			sort.Sort(&window{s, lo, hi - lo})
		case fell:
			s.reverse(lo, hi)
		}
		lo = hi
	}
}

// window is a part of a list, for sorting.
type window struct {
	*items
	from, n int
}

func (w *window) Len() int           { return w.n }
func (w *window) Less(i, j int) bool { return w.items.Less(w.from+i, w.from+j) }
func (w *window) Swap(i, j int)      { w.items.Swap(w.from+i, w.from+j) }

// dropRepeated keeps the first of equal items. REQUIRES: sorted.
func (s *items) dropRepeated() {
	kept := min(s.n, 1)
	for i := 1; i < s.n; i++ {
		if s.compare(i, kept-1) == 0 {
			continue
		}
		if kept < i {
			s.Swap(kept, i)
		}
		kept++
	}
	s.n = kept
}

// trim gives back the memory behind the last item.
func (s *items) trim() {
	s.chunks = append(make([]chunk, 0, (s.n+chunkMask)/chunkLen), s.chunks[:(s.n+chunkMask)/chunkLen]...)
	for k := range s.chunks {
		c := &s.chunks[k]
		n := min(s.n-k*chunkLen, chunkLen)
		if n < cap(c.ids) {
			c.times = append(make([]uint64, 0, n), c.times[:n]...)
			c.ids = append(make([]host.ID, 0, n), c.ids[:n]...)
		}
	}
}

// sumUp makes the sums of the chunks from the k-th on. REQUIRES: those before it
// have theirs.
func (s *items) sumUp(k int) {
	var total sum
	if k > 0 {
		total = s.chunks[k-1].sums[chunkLen/sumEvery]
	}
	for ; k < len(s.chunks); k++ {
		c := &s.chunks[k]
		c.sums = append(make([]sum, 0, 1+len(c.ids)/sumEvery), total)
		for ids := c.ids; len(ids) >= sumEvery; ids = ids[sumEvery:] {
			total.addAll(ids[:sumEvery])
			c.sums = append(c.sums, total)
		}
	}
}

// With returns the set that has these items as well, or s if it has them all. It
// shares with s the chunks before the first new item, and costs what lies behind
// that: next to nothing for items newer than all others, a copy of the set for one
// that is older.
func (s *Set) With(list ...Item) *Set {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), compareIDs(&a.ID, &b.ID))
	})
	list, places := s.lacking(slices.Compact(list))
	if len(list) == 0 {
		return s
	}
	shared := places[0] >> chunkBits
	total := s.Len() + len(list)
	t := items{
		chunks: append(make([]chunk, 0, (total+chunkMask)/chunkLen), s.items.chunks[:shared]...),
		n:      shared << chunkBits,
	}
	from := t.n
	for i := range list {
		t.copy(&s.items, from, places[i], total)
		t.push(&list[i], total)
		from = places[i]
	}
	t.copy(&s.items, from, s.Len(), total)
	t.sumUp(shared)
	return &Set{items: t}
}

// lacking leaves those items of a sorted list that are not in the set, and returns
// for each the index of the set's first item above it. It overwrites the list.
func (s *Set) lacking(list []Item) (rest []Item, places []int) {
	rest = list[:0]
	at := 0
	for _, it := range list {
		b := bound{time: it.CreatedAt, id: it.ID}
		at = s.find(at, &b)
		if at < s.Len() && s.items.time(at) == it.CreatedAt && *s.items.id(at) == it.ID {
			continue
		}
		rest = append(rest, it)
		places = append(places, at)
	}
	return rest, places
}

// room returns the last chunk, a new one if it is full, and how many items it can
// take. The list will hold total items.
func (s *items) room(total int) (c *chunk, n int) {
	if s.n&chunkMask == 0 {
		n := min(chunkLen, total-s.n)
		s.chunks = append(s.chunks, chunk{times: make([]uint64, 0, n), ids: make([]host.ID, 0, n)})
	}
	c = &s.chunks[len(s.chunks)-1]
	return c, cap(c.ids) - len(c.ids)
}

func (s *items) push(it *Item, total int) {
	c, _ := s.room(total)
	c.times = append(c.times, it.CreatedAt)
	c.ids = append(c.ids, it.ID)
	s.n++
}

// copy appends the items [lo, hi) of another list.
func (s *items) copy(o *items, lo, hi, total int) {
	for lo < hi {
		c, n := s.room(total)
		from, first := &o.chunks[lo>>chunkBits], lo&chunkMask
		n = min(n, hi-lo, len(from.ids)-first)
		c.times = append(c.times, from.times[first:first+n]...)
		c.ids = append(c.ids, from.ids[first:first+n]...)
		s.n += n
		lo += n
	}
}

// Shared returns how many leading items s and t hold in the same memory: those that With
// did not move.
func (s *Set) Shared(t *Set) int {
	a, b := s.items.chunks, t.items.chunks
	same := sort.Search(min(len(a), len(b)), func(i int) bool { return &a[i].ids[0] != &b[i].ids[0] })
	return min(same<<chunkBits, s.Len(), t.Len())
}
