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
