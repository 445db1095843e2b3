package relay

import (
	"math/bits"

	"talon/host"
)

// hyperLogLog estimates how many authors there are; those of several relays are
// merged by the maximum of each register (NIP-45).
type hyperLogLog [256]byte

// add counts an author. The byte at offset chooses the register, which keeps the
// largest number of leading zeros among the 56 bits after it, plus one.
func (h *hyperLogLog) add(offset int, author *host.PubKey) {
	var tail uint64
	for _, b := range author[offset+1 : offset+8] {
		tail = tail<<8 | uint64(b)
	}
	zeros := bits.LeadingZeros64(tail) - 8
	r := &h[author[offset]]
	*r = max(*r, byte(zeros+1))
}

// hllQuestions are the kinds and the tag of the questions that have a HyperLogLog: followers,
// reactions and comments. Clients show it in place of the exact count, so no other question has
// one.
var hllQuestions = map[host.Kind]byte{3: 'p', 7: 'e', 1111: 'E'}

// hllOffset returns the place in public keys at which a HyperLogLog for this question reads, 8
// to 23, and false if the question has none: see hllQuestions. It takes one filter that asks for
// one kind and one value of one tag. The place follows from the value, so that all relays choose
// the same, and nobody can mine keys for all questions together.
func hllOffset(filters []host.Filter) (int, bool) {
	if len(filters) != 1 {
		return 0, false
	}
	f := &filters[0]
	if len(f.Kinds) != 1 || len(f.Tags) != 1 || len(f.Tags[0].Values) != 1 || f.Tags[0].Name != hllQuestions[f.Kinds[0]] ||
		f.IDs != nil || f.Authors != nil || f.Since != nil || f.Until != nil {
		return 0, false
	}
	value := f.Tags[0].Values[0]
	var key [32]byte
	if !host.ParseHex(key[:], value) {
		return 0, false
	}
	return int(key[16]>>4) + 8, true // character 32 of the hex
}
