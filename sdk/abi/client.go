package abi

// Client is the message Client as it is written. K is the writer's type of a
// public key.
type Client[K ~[32]byte] struct {
	Address   []byte
	Authed    []K
	UserAgent string
	Origin    string
	Path      string
}

// appendClient appends c as a field, even if nothing is known of it.
func appendClient[K ~[32]byte](b []byte, field byte, c *Client[K]) []byte {
	size := sizeNonEmpty(len(c.Address)) + len(c.Authed)*sizeBytes(32) +
		sizeNonEmpty(len(c.UserAgent)) + sizeNonEmpty(len(c.Origin)) + sizeNonEmpty(len(c.Path))
	b = appendVarint(appendKey(b, field, wireBytes), uint64(size))
	b = appendNonEmpty(b, 1, c.Address)
	b = appendKeys(b, 2, c.Authed)
	b = appendNonEmpty(b, 3, c.UserAgent)
	b = appendNonEmpty(b, 4, c.Origin)
	return appendNonEmpty(b, 5, c.Path)
}

// appendKeys appends a field for each key.
func appendKeys[K ~[32]byte](b []byte, field byte, keys []K) []byte {
	for i := range keys {
		key := [32]byte(keys[i])
		b = append(appendKey(b, field, wireBytes), 32)
		b = append(b, key[:]...)
	}
	return b
}

// ClientView reads a Client in place.
type ClientView struct{ b []byte }

func (v ClientView) Address() string   { return text(lastField(v.b, 1)) }
func (v ClientView) UserAgent() string { return text(lastField(v.b, 3)) }
func (v ClientView) Origin() string    { return text(lastField(v.b, 4)) }
func (v ClientView) Path() string      { return text(lastField(v.b, 5)) }

// Authed returns an iterator over the keys that the client has proven.
func (v ClientView) Authed() BytesIter { return fields(v.b, 2) }

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
