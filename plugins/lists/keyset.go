package main

import "talon/sdk/policy"

// keySet is a set of public keys: a table with open addressing at the first
// bytes of a key, which are as good as random. A map of 32-byte keys costs a
// guest several times as much.
type keySet struct {
	slots []policy.PubKey // the zero key is an empty slot
	mask  uint32
}

func newKeySet(keys []policy.PubKey) *keySet {
	size := 4
	for size < 2*len(keys) {
		size *= 2
	}
	s := &keySet{slots: make([]policy.PubKey, size), mask: uint32(size - 1)}
	for i := range keys {
		at, _ := s.find(&keys[i])
		s.slots[at] = keys[i]
	}
	return s
}

func (s *keySet) has(key *policy.PubKey) bool {
	_, found := s.find(key)
	return found
}

// find returns the slot of key, or the empty one where it belongs. At least half
// of the slots are empty.
func (s *keySet) find(key *policy.PubKey) (uint32, bool) {
	first := word(key)
	at := first
	for {
		at &= s.mask
		slot := &s.slots[at]
		// Keys that begin alike are rare: only then a call compares the rest.
		begins := word(slot)
		if begins == first && *slot == *key {
			return at, *key != policy.PubKey{}
		}
		if begins == 0 && *slot == (policy.PubKey{}) {
			return at, false
		}
		at++
	}
}

func word(key *policy.PubKey) uint32 {
	return uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
}
