package meter

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// reader decodes a part of a module. The first failure sticks: what is read
// after it is zero, so that callers check err once per item.
type reader struct {
	b   []byte // up to the end of the part; offsets are those of the module
	pos int
	err error
}

func (r *reader) failAt(pos int, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %#x: %w", pos, fmt.Errorf(format, args...))
		r.pos = len(r.b)
	}
}

func (r *reader) fail(format string, args ...any) { r.failAt(r.pos, format, args...) }

func (r *reader) more() bool { return r.err == nil && r.pos < len(r.b) }

func (r *reader) byte() byte {
	if r.pos >= len(r.b) {
		r.fail("unexpected end")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

func (r *reader) skip(n int) []byte {
	if n > len(r.b)-r.pos {
		r.fail("unexpected end")
		return nil
	}
	b := r.b[r.pos : r.pos+n]
	r.pos += n
	return b
}

// u32 reads an unsigned number of at most five bytes. Padding is allowed, as
// linkers leave it; bits beyond the 32nd are not.
func (r *reader) u32() uint32 {
	if r.pos < len(r.b) && r.b[r.pos] < 0x80 {
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	start := r.pos
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		if shift == 28 && c > 0x0f {
			break
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.failAt(start, "malformed 32-bit number")
	return 0
}

// signed reads a signed number of this many bits, padding allowed.
func (r *reader) signed(bits int) int64 {
	start := r.pos
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		c := r.byte()
		if used := bits - shift; used < 7 {
			// All bits of the last byte that the number has no room for must
			// repeat its sign.
			if sign := int8(c<<1) >> used; c >= 0x80 || sign != 0 && sign != -1 {
				break
			}
		}
		v |= int64(c&0x7f) << shift
		if c < 0x80 {
			if c&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.failAt(start, "malformed %d-bit number", bits)
	return 0
}

// count reads the length of a vector. It cannot be more than limit, nor more
// than what the remaining bytes can hold at size bytes an item, so that it is
// safe to allocate for it, here and in the engine.
func (r *reader) count(what string, limit, size int) int {
	start := r.pos
	n := int(r.u32())
	if n > limit {
		r.failAt(start, "%d %s: the limit is %d", n, what, limit)
		return 0
	}
	if n > (len(r.b)-r.pos)/size {
		r.failAt(start, "%d %s do not fit into what is left", n, what)
		return 0
	}
	return n
}

func (r *reader) name() string {
	start := r.pos
	s := string(r.skip(int(r.u32())))
	if !utf8.ValidString(s) {
		r.failAt(start, "name is not UTF-8")
	}
	return s
}

// part returns a reader of the next n bytes and moves past them.
func (r *reader) part(n int) reader {
	start := r.pos
	r.skip(n)
	if r.err != nil {
		return reader{err: r.err}
	}
	return reader{b: r.b[:start+n], pos: start}
}

// finish fails if bytes are left over.
func (r *reader) finish() error {
	if r.err == nil && r.pos != len(r.b) {
		r.fail("%d bytes left over", len(r.b)-r.pos)
	}
	return r.err
}

// unsupported is the cause of a failure on something that the engine does not
// run as it is configured.
func unsupported(feature string) error {
	return fmt.Errorf("needs %s: %w", feature, errors.ErrUnsupported)
}
