package abi

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

// uint32 is the value of the field that r is at.
func (r *reader) uint32() uint32 { return uint32(min(r.num, 1<<32-1)) }
