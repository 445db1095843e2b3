package abi

import "math"

// open appends the key of a message field and room for its length. What is
// appended next is the message, until seal with the position that open returns.
func open(b []byte, field byte) ([]byte, int) {
	b = append(b, field<<3|wireBytes, 0)
	return b, len(b)
}

// seal writes the length of the message that began at start. A message of more
// than 127 bytes is moved, since its length takes more room: that is cheaper, and
// shorter, than to compute every size beforehand.
func seal(b []byte, start int) []byte {
	size := len(b) - start
	extra := sizeVarint(uint64(size)) - 1
	if extra > 0 {
		b = append(b, make([]byte, extra)...)
		copy(b[start+extra:], b[start:start+size])
	}
	appendVarint(b[:start-1], uint64(size))
	return b
}

// sealSome is seal, but takes back the field of an empty message.
func sealSome(b []byte, start int) []byte {
	if len(b) == start {
		return b[:start-2]
	}
	return seal(b, start)
}

// appendBool appends a bool field, nothing for false.
func appendBool(b []byte, field byte, v bool) []byte {
	if !v {
		return b
	}
	return append(b, field<<3|wireVarint, 1)
}

// appendTexts appends a field for each string.
func appendTexts(b []byte, field byte, list []string) []byte {
	for _, s := range list {
		b = appendField(b, field, s)
	}
	return b
}

// appendDouble appends a double field, nothing for zero.
func appendDouble(b []byte, field byte, v float64) []byte {
	if math.Float64bits(v) == 0 {
		return b
	}
	return appendFixed(appendKey(b, field, wireFixed64), v)
}

// appendFixed appends the eight bytes of a double.
func appendFixed(b []byte, v float64) []byte {
	n := math.Float64bits(v)
	for range 8 {
		b = append(b, byte(n))
		n >>= 8
	}
	return b
}

// bit is a bool of a packed field.
func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// eachVarint calls f for each varint of a packed field.
func eachVarint(b []byte, f func(uint64)) bool {
	for len(b) > 0 {
		v, n := readVarint(b)
		if n == 0 {
			return false
		}
		f(v)
		b = b[n:]
	}
	return true
}

// eachFixed calls f for each double of a packed field.
func eachFixed(b []byte, f func(float64)) bool {
	if len(b)%8 != 0 {
		return false
	}
	for r := (reader{rest: b}); len(r.rest) > 0; {
		r.fixed(8)
		f(math.Float64frombits(r.num))
	}
	return true
}

// known is the value of an enum, 0 for one after the last: what a later version says
// is nothing to this one.
func known(v uint64, last uint32) uint32 {
	if v > uint64(last) {
		return 0
	}
	return uint32(v)
}
