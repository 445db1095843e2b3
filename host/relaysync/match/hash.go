package match

import "math/bits"

// Hash makes the marks of texts: SipHash-1-3 under a key. All digests and matchers that
// meet must come from one Hash.
type Hash struct{ k0, k1 uint64 }

// NewHash returns the hash of a key. Whoever serves strangers takes a random one.
func NewHash(k0, k1 uint64) Hash { return Hash{k0, k1} }

// mark stands for a text.
type mark uint32

func sum[T string | []byte](h Hash, b T) mark {
	v0, v1 := h.k0^0x736f6d6570736575, h.k1^0x646f72616e646f6d
	v2, v3 := h.k0^0x6c7967656e657261, h.k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		m := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		v3 ^= m
		round()
		v0 ^= m
	}
	for i := range len(b) {
		last |= uint64(b[i]) << (8 * i)
	}
	v3 ^= last
	round()
	v0 ^= last
	v2 ^= 0xff
	round()
	round()
	round()
	v0 ^= v1 ^ v2 ^ v3
	return mark(v0 ^ v0>>32)
}
