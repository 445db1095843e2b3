package main

import (
	"encoding/binary"

	"talon/sdk/policy"
)

// half of a public key, its first 16 bytes, tells keys apart as well as all of it.
const half = 16

// slot has half of a key. The zero half is nobody's.
type slot [2]uint64

func slotOf(key *policy.PubKey) slot {
	return slot{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
}

// maxProbe is how far from its place a key may be. In a table that is at most half
// full of keys that nobody chose, none is nearly that far: who makes keys that fall
// on one another is left out, and slows nobody down.
const maxProbe = 256

// keySet is a set of at most `most` public keys: a table with open addressing.
type keySet struct {
	slots  []slot
	n, max int
	seed   uint64 // of the places of keys: whoever makes keys does not know it
}

func newKeySet(limit int) keySet {
	size := 16
	for size < 2*limit {
		size *= 2
	}
	return keySet{slots: make([]slot, size), max: limit}
}

// empty removes all keys.
func (s *keySet) empty(seed uint64) {
	if s.n > 0 {
		clear(s.slots)
	}
	s.n, s.seed = 0, seed
}

func (s *keySet) place(h slot) uint64 {
	x := (h[0] ^ s.seed) * 0x9e3779b97f4a7c15
	x ^= x>>32 ^ h[1]
	x = (x ^ x>>32) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>29) * 0x94d049bb133111eb
	return x ^ x>>32
}

func (s *keySet) has(key *policy.PubKey) bool {
	want := slotOf(key)
	at, found := s.find(want)
	return found && s.slots[at] == want && want != slot{}
}

// add reports whether the key is new and there was room for it.
func (s *keySet) add(key *policy.PubKey) bool {
	want := slotOf(key)
	if s.n == s.max || want == (slot{}) {
		return false
	}
	at, found := s.find(want)
	if !found || s.slots[at] == want {
		return false
	}
	s.slots[at] = want
	s.n++
	return true
}

// find returns where the key is, or the empty slot where it belongs. It is a small
// function of its own: a guest pays for each round of a loop by the size of the
// function.
//
//go:noinline
func (s *keySet) find(want slot) (at uint64, found bool) {
	at = s.place(want)
	for last := at + maxProbe; at < last; at++ {
		i := at & uint64(len(s.slots)-1)
		if there := s.slots[i]; there == want || there == (slot{}) {
			return i, true
		}
	}
	return 0, false
}
