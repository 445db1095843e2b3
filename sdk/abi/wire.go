package abi

import (
	"errors"
	"math"
	"math/bits"
	"unsafe"
)

// ErrMalformed says that bytes are not the message they were read as.
var ErrMalformed = errors.New("malformed message")

// Wire types of protobuf. Groups (3 and 4) do not exist in proto3.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

func sizeVarint(v uint64) int {
	return (bits.Len64(v|1) + 6) / 7
}

// sizeBytes is the size of a field of n bytes, its one-byte key included.
func sizeBytes(n int) int {
	return 1 + sizeVarint(uint64(n)) + n
}

// sizeNonEmpty is the size of a field that is omitted if it is empty.
func sizeNonEmpty(n int) int {
	if n == 0 {
		return 0
	}
	return sizeBytes(n)
}

func appendVarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendKey(b []byte, field, wire byte) []byte {
	return append(b, field<<3|wire)
}

// appendUint appends a varint field, nothing for zero.
func appendUint(b []byte, field byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(appendKey(b, field, wireVarint), v)
}

// appendField appends a bytes or string field, even if it is empty.
func appendField[T ~string | ~[]byte](b []byte, field byte, v T) []byte {
	b = appendVarint(appendKey(b, field, wireBytes), uint64(len(v)))
	return append(b, v...)
}

// appendNonEmpty appends a bytes or string field, nothing for an empty one.
func appendNonEmpty[T ~string | ~[]byte](b []byte, field byte, v T) []byte {
	if len(v) == 0 {
		return b
	}
	return appendField(b, field, v)
}

// reader walks the fields of a message. After next has returned true, key holds the number and wire
// type of the field. num holds the value of a varint or fixed field, data that of any other. bad is
// set if the walk ended before the bytes did.
type reader struct {
	rest []byte
	data []byte
	num  uint64
	key  uint64
	bad  bool
}

func key(field uint32, wire uint8) uint64 { return uint64(field)<<3 | uint64(wire) }

// maxKey is that of the highest field number.
const maxKey = 1<<32 - 1

func (r *reader) next() bool {
	b := r.rest
	if len(b) == 0 || r.bad {
		return false
	}
	pos := 1
	k := uint64(b[0])
	if k >= 0x80 {
		if k, pos = readVarint(b); pos == 0 || k > maxKey {
			return r.fail()
		}
	}
	if k < 8 {
		return r.fail()
	}
	r.key = k
	switch k & 7 {
	case wireBytes, wireVarint:
	case wireFixed64:
		r.rest = b[pos:]
		return r.fixed(8)
	case wireFixed32:
		r.rest = b[pos:]
		return r.fixed(4)
	default:
		return r.fail()
	}
	// The value, or the length. A guest pays for each call, so one or two bytes
	// are read without.
	var v uint64
	switch {
	case pos < len(b) && b[pos] < 0x80:
		v = uint64(b[pos])
		pos++
	case pos+1 < len(b) && b[pos+1] < 0x80:
		v = uint64(b[pos]&0x7f) | uint64(b[pos+1])<<7
		pos += 2
	default:
		var n int
		if v, n = readVarint(b[pos:]); n == 0 {
			return r.fail()
		}
		pos += n
	}
	if k&7 == wireVarint {
		r.num, r.rest = v, b[pos:]
		return true
	}
	if v > uint64(len(b)-pos) {
		return r.fail()
	}
	end := pos + int(v)
	r.data, r.rest = b[pos:end:end], b[end:]
	return true
}

func (r *reader) fail() bool {
	r.bad = true
	return false
}

func (r *reader) fixed(size int) bool {
	if len(r.rest) < size {
		return r.fail()
	}
	r.num = 0
	for i := size - 1; i >= 0; i-- {
		r.num = r.num<<8 | uint64(r.rest[i])
	}
	r.rest = r.rest[size:]
	return true
}

// is reports whether the current field has this number and wire type. A known
// number with another wire type is treated as an unknown field.
func (r *reader) is(field uint32, wire uint8) bool {
	return r.key == key(field, wire)
}

func (r *reader) err() error {
	if r.bad {
		return ErrMalformed
	}
	return nil
}

// readVarint returns the varint at the start of b and its length, 0 if there is
// none of at most ten bytes.
func readVarint(b []byte) (uint64, int) {
	var v uint64
	for i := 0; i < len(b) && i < 10; i++ {
		c := b[i]
		if i == 9 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// Hexes writes ids as filters have them, 64 hex digits, without garbage.
type Hexes struct{ b []byte }

// Reset forgets everything. Results of Add are no longer valid.
func (h *Hexes) Reset() { h.b = h.b[:0] }

// Add returns the digits of an id.
func (h *Hexes) Add(id *[32]byte) string {
	start := len(h.b)
	h.b = AppendHex(h.b, id[:])
	return text(h.b[start:])
}

// AppendHex appends bytes as hex digits. Package encoding/hex would make each module larger
// by fmt, os and reflect.
func AppendHex(b, data []byte) []byte {
	const digits = "0123456789abcdef"
	n := len(b)
	b = append(b, make([]byte, 2*len(data))...)
	for i, c := range data {
		b[n+2*i], b[n+2*i+1] = digits[c>>4], digits[c&0x0f]
	}
	return b
}

// text returns b as a string without a copy. Views promise no more than that
// the result is valid as long as the bytes are.
func text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// open appends the key of a message field and room for its length. The bytes that follow are the
// message, until seal is called with the position that open returned.
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

// known returns the value of an enum, or 0 for a value of a later version.
func known(v uint64, last uint32) uint32 {
	if v > uint64(last) {
		return 0
	}
	return uint32(v)
}
