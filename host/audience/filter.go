package audience

import (
	"encoding/binary"
	"math/rand/v2"

	"talon/host"
)

// filter says of which events it is not worth to read the audience: those that were never added. It
// has a fixed size. When there are many, it lets others through, which costs a read each.
type filter struct {
	seed uint64
	bits []uint64
}

// filterBits is the size of a filter: 1 MiB. With half a million events, one of 60 others is let
// through; with a million one of six.
const filterBits = 23

func newFilter() *filter { return &filter{rand.Uint64(), make([]uint64, 1<<filterBits/64)} }

// place returns where one of the four bits of an event is. Ids are hashes already.
func (f *filter) place(id *host.ID, n int) (word, bit uint64) {
	const odd = 0x9e3779b97f4a7c15
	at := (binary.LittleEndian.Uint64(id[8*n:]) ^ f.seed) * odd >> (64 - filterBits)
	return at / 64, at % 64
}

func (f *filter) add(id host.ID) {
	for n := range 4 {
		word, bit := f.place(&id, n)
		f.bits[word] |= 1 << bit
	}
}

// mayHave is false for an event that was not added.
func (f *filter) mayHave(id host.ID) bool {
	for n := range 4 {
		if word, bit := f.place(&id, n); f.bits[word]>>bit&1 == 0 {
			return false
		}
	}
	return true
}
