package negentropy

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"talon/host"
)

// sum is a sum of ids modulo 2^256, least significant word first; an id is read
// as a little-endian integer.
type sum [4]uint64

func (s *sum) add(id *host.ID) {
	var c uint64
	s[0], c = bits.Add64(s[0], binary.LittleEndian.Uint64(id[0:8]), 0)
	s[1], c = bits.Add64(s[1], binary.LittleEndian.Uint64(id[8:16]), c)
	s[2], c = bits.Add64(s[2], binary.LittleEndian.Uint64(id[16:24]), c)
	s[3], _ = bits.Add64(s[3], binary.LittleEndian.Uint64(id[24:32]), c)
}

func (s *sum) addAll(ids []host.ID) {
	t := *s
	for i := range ids {
		t.add(&ids[i])
	}
	*s = t
}

func (s *sum) sub(o *sum) {
	var b uint64
	s[0], b = bits.Sub64(s[0], o[0], 0)
	s[1], b = bits.Sub64(s[1], o[1], b)
	s[2], b = bits.Sub64(s[2], o[2], b)
	s[3], _ = bits.Sub64(s[3], o[3], b)
}

func (s *sum) fingerprint(count int) fingerprint {
	var buf [32 + maxVarint]byte
	for i, word := range s {
		binary.LittleEndian.PutUint64(buf[8*i:], word)
	}
	h := sha256.Sum256(appendVarint(buf[:32], uint64(count)))
	return fingerprint(h[:])
}

// fingerprint is the first half of the SHA-256 of a sum and the number of ids
// in it.
type fingerprint [16]byte

var emptyFingerprint = new(sum).fingerprint(0)
