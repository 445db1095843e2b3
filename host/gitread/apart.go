package gitread

import "container/heap"

const (
	// maxApart bounds the commits and parents that are looked at to count what only one of two
	// commits reaches.
	maxApart = 16_000

	// maxApartTotal bounds them for all questions about one [Repository], such as those of the page
	// of branches. It is about 40 ms of a processor.
	maxApartTotal = 160_000
)

// AheadBehind returns how many commits one commit reaches and another does not, and the other way.
// It reports false if that takes too long to count.
func (r *Repository) AheadBehind(a, b string) (ahead, behind int, ok bool) {
	h, err := r.history()
	if err != nil {
		return 0, 0, false
	}
	x, found := h.find(a)
	y, also := h.find(b)
	if !found || !also || r.apart >= maxApartTotal {
		return 0, 0, false
	}
	ahead, behind, steps, ok := h.aheadBehind(x, y)
	r.apart += steps
	return ahead, behind, ok
}

// aheadBehind walks from both commits, the largest generation first, until all that is left is
// reached by both. It returns how many commits and parents it has looked at.
func (h *history) aheadBehind(a, b uint32) (ahead, behind, steps int, ok bool) {
	const both = 3
	if a == b {
		return 0, 0, 0, true
	}
	sides := map[uint32]uint8{a: 1, b: 2}
	q := &walkQueue{past: h}
	heap.Push(q, a)
	heap.Push(q, b)
	open := 2 // commits in the queue that only one reaches
	var parents []uint32
	for open > 0 {
		if steps > maxApart {
			return 0, 0, steps, false
		}
		n := heap.Pop(q).(uint32)
		side := sides[n]
		switch side {
		case 1:
			ahead++
			open--
		case 2:
			behind++
			open--
		}
		parents = h.parents(parents[:0], n)
		steps += 1 + len(parents)
		for _, p := range parents {
			before := sides[p]
			sides[p] = before | side
			switch {
			case before == 0:
				heap.Push(q, p)
				if side != both {
					open++
				}
			case before != both && before|side == both:
				open--
			}
		}
	}
	return ahead, behind, steps, true
}
