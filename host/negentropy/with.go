package negentropy

import (
	"cmp"
	"slices"
	"sort"

	"talon/host"
)

// With returns the set that has these items as well, or s if it has them all. It
// shares with s the chunks before the first new item, and costs what lies behind
// that: next to nothing for items newer than all others, a copy of the set for one
// that is older.
func (s *Set) With(list ...Item) *Set {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Item) int {
		if c := cmp.Compare(a.CreatedAt, b.CreatedAt); c != 0 {
			return c
		}
		return compareIDs(&a.ID, &b.ID)
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
