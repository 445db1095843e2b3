package abi

import "encoding/hex"

// Hexes writes ids as filters have them, 64 hex digits, without garbage.
type Hexes struct{ b []byte }

// Reset forgets all. What Add has returned must not be used any more.
func (h *Hexes) Reset() { h.b = h.b[:0] }

// Add returns the digits of an id.
func (h *Hexes) Add(id *[32]byte) string {
	start := len(h.b)
	h.b = hex.AppendEncode(h.b, id[:])
	return text(h.b[start:])
}
