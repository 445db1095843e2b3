package negentropy

import (
	"bytes"
	"cmp"
	"math"

	"talon/host"
)

// infinity is the time of a bound above every item.
const infinity = math.MaxUint64

// bound is the exclusive upper end of a range and the lower end of the next. Its
// id is as long as it must be to tell two items apart; on the wire only size
// bytes of it are sent, the rest are zero.
type bound struct {
	time uint64
	id   host.ID
	size int
}

func (b *bound) compare(o *bound) int {
	if c := cmp.Compare(b.time, o.time); c != 0 {
		return c
	}
	return compareIDs(&b.id, &o.id)
}

// boundAt returns the bound that begins exactly at item i.
func (s *Set) boundAt(i int) bound {
	return bound{time: s.items.time(i), id: *s.items.id(i), size: len(host.ID{})}
}

// boundBetween returns the shortest bound that is above item i-1 and not above
// item i.
func (s *Set) boundBetween(i int) bound {
	b := bound{time: s.items.time(i)}
	if b.time == s.items.time(i-1) {
		before, id := s.items.id(i-1), s.items.id(i)
		for b.size < len(id) {
			b.id[b.size] = id[b.size]
			b.size++
			if id[b.size-1] != before[b.size-1] {
				break
			}
		}
	}
	return b
}

func compareIDs(a, b *host.ID) int { return bytes.Compare(a[:], b[:]) }
