package negentropy

import (
	"bytes"
	"cmp"
	"fmt"
	"math"

	"talon/host"
)

// protocolVersion is the first byte of every message: version 1. Versions are
// 0x60 to 0x6f.
const protocolVersion = 0x61

// Modes: the content after the bound of a range.
const (
	modeSkip        = 0 // nothing: the sender has no interest in the range
	modeFingerprint = 1 // 16 bytes
	modeIDList      = 2 // a count and as many ids
)

// maxVarint is the length of the longest varint that fits 64 bits.
const maxVarint = 10

// appendVarint appends v in base 128, the most significant digit first, with the
// high bit set on each byte but the last.
func appendVarint(b []byte, v uint64) []byte {
	shift := 0
	for v>>shift >= 0x80 {
		shift += 7
	}
	for ; shift > 0; shift -= 7 {
		b = append(b, byte(v>>shift)|0x80)
	}
	return append(b, byte(v)&0x7f)
}

// messageVersion returns the first byte of a message.
func messageVersion(msg []byte) (byte, error) {
	if len(msg) == 0 {
		return 0, fmt.Errorf("read version: %w", ErrTruncated)
	}
	if msg[0]&0xf0 != protocolVersion&0xf0 {
		return 0, ErrVersion
	}
	return msg[0], nil
}

// reader takes a message apart from its start.
type reader struct {
	b    []byte // what is left
	time uint64 // of the bound before: times are sent as differences
}

func (r *reader) next(n int) ([]byte, error) {
	if n > len(r.b) {
		return nil, ErrTruncated
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b, nil
}

// varint reads a varint in its only, shortest form: as the first digit is not 0,
// anything longer than maxVarint overflows.
func (r *reader) varint() (uint64, error) {
	var v uint64
	for i, c := range r.b {
		if i == 0 && c == 0x80 || v > infinity>>7 {
			return 0, ErrVarint
		}
		v = v<<7 | uint64(c&0x7f)
		if c < 0x80 {
			r.b = r.b[i+1:]
			return v, nil
		}
	}
	return 0, ErrTruncated
}

// rangeHead reads the upper bound of a range and what follows it.
func (r *reader) rangeHead() (bound, uint64, error) {
	b, err := r.bound()
	if err != nil {
		return bound{}, 0, fmt.Errorf("read bound: %w", err)
	}
	mode, err := r.varint()
	if err != nil {
		return bound{}, 0, fmt.Errorf("read mode: %w", err)
	}
	return b, mode, nil
}

func (r *reader) bound() (bound, error) {
	var b bound
	diff, err := r.varint()
	if err != nil {
		return b, fmt.Errorf("read timestamp: %w", err)
	}
	switch {
	case diff == 0 || r.time == infinity:
		r.time = infinity
	case diff-1 >= infinity-r.time:
		return b, ErrTimestamp
	default:
		r.time += diff - 1
	}
	b.time = r.time

	size, err := r.varint()
	if err != nil {
		return b, fmt.Errorf("read prefix length: %w", err)
	}
	if size > uint64(len(b.id)) {
		return b, ErrPrefix
	}
	if size > 0 && b.time == infinity {
		// Nothing lies beyond infinity: an answer could not go on from there.
		return b, ErrPrefix
	}
	prefix, err := r.next(int(size))
	if err != nil {
		return b, fmt.Errorf("read prefix: %w", err)
	}
	b.size = copy(b.id[:], prefix)
	return b, nil
}

func (r *reader) fingerprint() (fingerprint, error) {
	b, err := r.next(len(fingerprint{}))
	if err != nil {
		return fingerprint{}, fmt.Errorf("read fingerprint: %w", err)
	}
	return fingerprint(b), nil
}

// idList returns the ids of a list, one after the other, as the message has them.
func (r *reader) idList() ([]byte, error) {
	n, err := r.varint()
	if err != nil {
		return nil, fmt.Errorf("read number of ids: %w", err)
	}
	if n > uint64(len(r.b)/len(host.ID{})) {
		return nil, fmt.Errorf("read ids: %w", ErrTruncated)
	}
	return r.next(int(n) * len(host.ID{}))
}

// writer puts a message together.
type writer struct {
	b    []byte
	time uint64 // of the bound before
}

func newWriter() writer { return writer{b: append(make([]byte, 0, 1024), protocolVersion)} }

func (w *writer) bound(b *bound) {
	if b.time == infinity {
		w.b = appendVarint(w.b, 0)
	} else {
		w.b = appendVarint(w.b, b.time-w.time+1)
	}
	w.time = b.time
	w.b = appendVarint(w.b, uint64(b.size))
	w.b = append(w.b, b.id[:b.size]...)
}

func (w *writer) skip(b *bound) {
	w.bound(b)
	w.b = append(w.b, modeSkip)
}

func (w *writer) fingerprint(b *bound, f fingerprint) {
	w.bound(b)
	w.b = append(w.b, modeFingerprint)
	w.b = append(w.b, f[:]...)
}

// idList writes the ids of the items [lo, hi) of the set.
func (w *writer) idList(b *bound, s *Set, lo, hi int) {
	w.bound(b)
	w.b = append(w.b, modeIDList)
	w.b = appendVarint(w.b, uint64(hi-lo))
	w.b = s.appendIDs(w.b, lo, hi)
}

// infinity is the time of a bound above every item.
const infinity = math.MaxUint64

// bound is the exclusive upper end of a range and the lower end of the next. Its
// id is as long as it must be to tell two items apart; on the wire only size
// bytes of it are sent, the rest are zero.
type bound struct {
	time uint64
	id   host.ID
	size int
}

func (b *bound) compare(o *bound) int {
	if c := cmp.Compare(b.time, o.time); c != 0 {
		return c
	}
	return compareIDs(&b.id, &o.id)
}

// boundAt returns the bound that begins exactly at item i.
func (s *Set) boundAt(i int) bound {
	return bound{time: s.items.time(i), id: *s.items.id(i), size: len(host.ID{})}
}

// boundBetween returns the shortest bound that is above item i-1 and not above
// item i.
func (s *Set) boundBetween(i int) bound {
	b := bound{time: s.items.time(i)}
	if b.time == s.items.time(i-1) {
		before, id := s.items.id(i-1), s.items.id(i)
		for b.size < len(id) {
			b.id[b.size] = id[b.size]
			b.size++
			if id[b.size-1] != before[b.size-1] {
				break
			}
		}
	}
	return b
}

func compareIDs(a, b *host.ID) int { return bytes.Compare(a[:], b[:]) }
