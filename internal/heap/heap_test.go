package heap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// item knows where it is.
type item struct{ key, place int }

// TestHeap pushes, changes and removes items at random. They must leave in order, and know their
// places.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := New(func(a, b *item) bool { return a.key < b.key }, func(x *item, place int) { x.place = place })
	var here []*item
	for range 10_000 {
		switch n := r.IntN(10); {
		case n < 5 || len(here) == 0:
			x := &item{key: r.IntN(100)}
			here = append(here, x)
			h.Push(x)
		case n < 7:
			x := here[r.IntN(len(here))]
			x.key = r.IntN(100)
			h.Fix(x.place)
		case n < 8:
			i := r.IntN(len(here))
			if x := h.Remove(here[i].place); x != here[i] || x.place != -1 {
				t.Fatalf("removed %+v, want %+v", x, here[i])
			}
			here = slices.Delete(here, i, i+1)
		default:
			x := h.Pop()
			i := slices.Index(here, x)
			here = slices.Delete(here, i, i+1)
			for _, other := range here {
				if other.key < x.key || x.place != -1 {
					t.Fatalf("%+v came before %+v", x, other)
				}
			}
		}
		if h.Len() != len(here) {
			t.Fatalf("%d items, want %d", h.Len(), len(here))
		}
		for _, x := range here {
			if h.Items()[x.place] != x {
				t.Fatalf("%+v is not at its place", x)
			}
		}
	}
}
