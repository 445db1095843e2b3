package abi

// appendKeys appends a field for each key.
func appendKeys[K ~[32]byte](b []byte, field byte, keys []K) []byte {
	for i := range keys {
		key := [32]byte(keys[i])
		b = append(appendKey(b, field, wireBytes), 32)
		b = append(b, key[:]...)
	}
	return b
}

// lastField returns the data of a field that is there once, nil if it is not.
func lastField(b []byte, field uint32) (data []byte) {
	for r := (reader{rest: b}); r.next(); {
		if r.is(field, wireBytes) {
			data = r.data
		}
	}
	return data
}

// BytesIter walks a repeated field of bytes or text.
type BytesIter struct {
	r   reader
	key uint64
}

func fields(b []byte, field uint32) BytesIter {
	return BytesIter{reader{rest: b}, key(field, wireBytes)}
}

// Next moves to the next value, and reports whether there is one.
func (it *BytesIter) Next() bool {
	for it.r.next() {
		if it.r.key == it.key {
			return true
		}
	}
	return false
}

// Bytes returns the value that Next moved to.
func (it *BytesIter) Bytes() []byte { return it.r.data }

// Key returns the value as a key or an id of 32 bytes; what is missing is zeros.
func (it *BytesIter) Key() (key [32]byte) {
	copy(key[:], it.r.data)
	return key
}

// Text is Bytes as a string.
func (it *BytesIter) Text() string { return text(it.r.data) }
