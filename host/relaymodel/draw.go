package relaymodel

import (
	"encoding/binary"

	"talon/host"
)

// Random draws for an event.
const (
	drawLate = iota + 1
	drawLost
	drawTwice
	drawOmitted
	drawForgedID
	drawForgedSig
	drawEose
	drawRefused
	drawDropped
)

// draw returns a number from 0 to below 1 that follows from the seed, the event and
// what it is for.
func (r *Relay) draw(what uint64, id host.ID) float64 { return draw(r.seed, what, id) }

func draw(seed, what uint64, id host.ID) float64 {
	return float64(Mix(Mix(seed+what)^binary.LittleEndian.Uint64(id[8:]))>>11) / (1 << 53)
}

// Mix spreads the bits of a number (the finalizer of splitmix64).
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
