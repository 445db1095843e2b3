package layers

import "encoding/binary"

// pageRoots is how many ids are allocated together: a table that grows does not
// copy what it has.
const pageRoots = 512

// roots numbers the ids of root events, and finds them again. An id that no
// repository has any more gives its number to the next one.
type roots struct {
	pages []*[pageRoots][32]byte
	uses  []uint16 // of each number: repositories that have it; 0: the number is free
	free  []uint32 // numbers
	table [segments]segment
	used  int // numbers that are not free
	seed  uint64
}

// id returns the id of a number.
func (r *roots) id(n uint32) *[32]byte { return &r.pages[n/pageRoots][n%pageRoots] }

// len is one more than the highest number.
func (r *roots) len() int { return len(r.uses) }

// segments are how many parts the table has. Each grows alone: a step that makes it
// grow costs no more in a large world, and only one part is there twice meanwhile.
const segments = 256

// segment is a part of the table.
type segment struct {
	slots []uint32 // open addressing; number+1, 0: empty
	used  int
}

// place is where a number is in the table, or where there is room for one.
type place struct {
	in   *segment
	slot uint64
}

// hash mixes bytes of an id with the seed: whoever makes ids does not know it.
func (r *roots) hash(id *[32]byte) uint64 {
	h := (binary.LittleEndian.Uint64(id[:]) ^ r.seed) * 0x9e3779b97f4a7c15
	h ^= binary.LittleEndian.Uint64(id[8:]) + h>>29
	return h * 0xbf58476d1ce4e5b9
}

// segment returns that of a hash.
func (r *roots) segment(hash uint64) *segment { return &r.table[hash>>56] }

// home is the slot of a segment where a hash belongs.
func (s *segment) home(hash uint64) uint64 {
	return (hash >> 24 & 0xffffffff) * uint64(len(s.slots)) >> 32
}

// after is the slot that follows one.
func (s *segment) after(slot uint64) uint64 {
	if slot++; slot < uint64(len(s.slots)) {
		return slot
	}
	return 0
}

// steps is how far it is from one slot on to another.
func (s *segment) steps(from, to uint64) uint64 {
	if to >= from {
		return to - from
	}
	return to + uint64(len(s.slots)) - from
}

// find returns the number of an id; if it has none, the place that is free for it.
func (r *roots) find(id *[32]byte) (n uint32, free place, known bool) {
	hash := r.hash(id)
	s := r.segment(hash)
	if 5*(s.used+1) > 4*len(s.slots) {
		r.grow(s)
	}
	slot := s.home(hash)
	for ; s.slots[slot] != 0; slot = s.after(slot) {
		if n := s.slots[slot] - 1; *r.id(n) == *id {
			return n, place{}, true
		}
	}
	return 0, place{s, slot}, false
}

// again counts one more repository that has the number.
func (r *roots) again(n uint32) {
	if r.uses[n] < mostUses {
		r.uses[n]++
	}
}

// mostUses is as far as uses counts. A number that comes so far is never free
// again.
const mostUses = 1<<16 - 1

// add gives an id a number, after find has told the place.
func (r *roots) add(id *[32]byte, at place) uint32 {
	n := uint32(len(r.uses))
	if last := len(r.free) - 1; last >= 0 {
		n, r.free = r.free[last], r.free[:last]
	} else {
		r.uses = append(r.uses, 0)
		if n%pageRoots == 0 {
			r.pages = append(r.pages, new([pageRoots][32]byte))
		}
	}
	*r.id(n), r.uses[n] = *id, 1
	at.in.slots[at.slot] = n + 1
	at.in.used++
	r.used++
	return n
}

// grow makes a segment half as large again.
func (r *roots) grow(s *segment) {
	old := s.slots
	s.slots = make([]uint32, max(16, 3*len(old)/2))
	for _, number := range old {
		if number == 0 {
			continue
		}
		slot := s.home(r.hash(r.id(number - 1)))
		for s.slots[slot] != 0 {
			slot = s.after(slot)
		}
		s.slots[slot] = number
	}
}

// drop counts one repository less that has the number. After the last one it is
// free: it reports whether that is so.
func (r *roots) drop(n uint32) bool {
	if r.uses[n] == mostUses {
		return false
	}
	if r.uses[n]--; r.uses[n] > 0 {
		return false
	}
	r.remove(n)
	r.used--
	r.free = append(r.free, n)
	return true
}

// remove takes a number out of the table and moves up what it was in the way of.
func (r *roots) remove(n uint32) {
	hash := r.hash(r.id(n))
	s := r.segment(hash)
	slot := s.home(hash)
	for s.slots[slot] != n+1 {
		slot = s.after(slot)
	}
	for next := s.after(slot); s.slots[next] != 0; next = s.after(next) {
		home := s.home(r.hash(r.id(s.slots[next] - 1)))
		if s.steps(home, next) >= s.steps(slot, next) {
			s.slots[slot] = s.slots[next]
			slot = next
		}
	}
	s.slots[slot] = 0
	s.used--
}
