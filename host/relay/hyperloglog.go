package relay

import (
	"crypto/sha256"
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

// hllOffset returns the place in public keys at which a HyperLogLog for this
// question reads, 8 to 23, and false if NIP-45 defines none: it takes one filter
// with a tag. The place follows from the first value of the first tag, so that
// all relays choose the same, and nobody can mine keys for all questions together.
func hllOffset(filters []host.Filter) (int, bool) {
	if len(filters) != 1 || len(filters[0].Tags) == 0 || len(filters[0].Tags[0].Values) == 0 {
		return 0, false
	}
	value := filters[0].Tags[0].Values[0]
	var key [32]byte
	if !host.ParseHex(key[:], value) {
		if a, ok := host.ParseAddress(value); ok {
			key = a.PubKey
		} else {
			key = sha256.Sum256([]byte(value))
		}
	}
	return int(key[16]>>4) + 8, true // character 32 of the hex
}
