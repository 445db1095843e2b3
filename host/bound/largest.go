package bound

import (
	"cmp"
	"slices"
)

// Largest counts by key, and remembers the keys with most: at most twice Size. When there are more,
// the smaller half is forgotten, so that a key that comes often stays. It is not safe for concurrent
// use.
type Largest[K comparable] struct {
	Size int

	counts map[K]int64
}

// Count is a key of a [Largest] with its count.
type Count[K comparable] struct {
	Key K
	N   int64
}

// Add adds to the count of a key.
func (l *Largest[K]) Add(key K, n int64) {
	if l.counts == nil {
		l.counts = make(map[K]int64)
	}
	l.counts[key] += n
	if len(l.counts) <= 2*l.Size {
		return
	}
	top := l.Top(l.Size)
	clear(l.counts)
	for _, c := range top {
		l.counts[c.Key] = c.N
	}
}

// Top returns the keys with most, the largest first, at most limit.
func (l *Largest[K]) Top(limit int) []Count[K] {
	list := make([]Count[K], 0, len(l.counts))
	for key, n := range l.counts {
		list = append(list, Count[K]{key, n})
	}
	slices.SortFunc(list, func(a, b Count[K]) int { return cmp.Compare(b.N, a.N) })
	return list[:min(limit, len(list))]
}

// Reset forgets everything.
func (l *Largest[K]) Reset() { clear(l.counts) }
