package negentropy

import (
	"sort"

	"talon/host"
)

// Builder makes a [Set]. Its zero value is ready for use. Items may be added in
// any order; ascending and descending times, as a store reads them, need no
// sorting.
type Builder struct {
	items items
	last  uint64
	rose  bool // some item was newer than the one before it
	fell  bool // some item was older than the one before it
}

// Add appends an item; one that was added before is dropped by Build.
func (b *Builder) Add(it Item) {
	if b.items.n > 0 {
		b.rose = b.rose || it.CreatedAt > b.last
		b.fell = b.fell || it.CreatedAt < b.last
	}
	b.last = it.CreatedAt

	// The first chunk grows as it is filled: most sets are small.
	if b.items.n&chunkMask == 0 {
		var c chunk
		if b.items.n > 0 {
			c = chunk{times: make([]uint64, 0, chunkLen), ids: make([]host.ID, 0, chunkLen)}
		}
		b.items.chunks = append(b.items.chunks, c)
	}
	c := &b.items.chunks[len(b.items.chunks)-1]
	c.times = append(c.times, it.CreatedAt)
	c.ids = append(c.ids, it.ID)
	b.items.n++
}

// Len returns the number of items added since the last Build, those added twice
// counted twice.
func (b *Builder) Len() int { return b.items.n }

// Build returns the set of the items added, and leaves the builder empty.
func (b *Builder) Build() *Set {
	list := b.items
	switch {
	case b.rose && b.fell:
		sort.Sort(&list)
	default:
		if b.fell {
			list.reverse(0, list.n)
		}
		list.sortTies()
	}
	*b = Builder{}
	list.dropRepeated()
	list.trim()
	list.sumUp(0)
	return &Set{items: list}
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
