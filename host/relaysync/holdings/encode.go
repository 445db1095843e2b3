package holdings

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"talon/host"
)

// A set is written as a version, the number of filters, their fingerprints, and the prefixes,
// ascending.
const version = 1

// Encode returns the set as bytes, to be read by [Decode].
func (s *Set) Encode() []byte {
	s.merge()
	b := make([]byte, 0, 3+len(s.filters)*len(fingerprint{})+len(s.merged))
	b = append(b, version)
	b = binary.BigEndian.AppendUint16(b, uint16(len(s.filters)))
	for _, f := range s.filters {
		b = append(b, f[:]...)
	}
	return append(b, s.merged...)
}

// Decode returns the set that was written, or one that knows nothing if that cannot be read
// or is larger than the limit.
func Decode(b []byte, limit int) *Set {
	s := New(limit)
	if len(b) < 3 || b[0] != version {
		return s
	}
	filters := int(binary.BigEndian.Uint16(b[1:]))
	const size = len(fingerprint{})
	list := b[3:]
	if filters > maxFilters || len(list) < filters*size {
		return s
	}
	prefixes := list[filters*size:]
	if len(prefixes)%prefixBytes != 0 || len(prefixes)/prefixBytes > limit || !ascending(prefixes) {
		return s
	}
	s.kept = true
	s.merged = bytes.Clone(prefixes)
	for i := range filters {
		f := fingerprint(list[i*size : (i+1)*size])
		s.filters = append(s.filters, f)
		s.known[f] = true
	}
	return s
}

func ascending(list []byte) bool {
	for at := prefixBytes; at < len(list); at += prefixBytes {
		if bytes.Compare(list[at-prefixBytes:at], list[at:at+prefixBytes]) >= 0 {
			return false
		}
	}
	return true
}

// TakeChanged reports whether there is something to be written since it was called last.
func (s *Set) TakeChanged() bool {
	changed := s.changed && s.kept
	s.changed = false
	return changed
}

// fingerprint stands for a filter, whatever the order of its values, without since, until
// and limit.
type fingerprint [8]byte

func fingerprintOf(f *host.Filter) (print fingerprint) {
	var b []byte
	text := func(v string) {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	begin := func(what byte, n int) {
		b = append(b, what)
		b = binary.AppendUvarint(b, uint64(n))
	}
	if f.IDs != nil {
		begin('i', len(f.IDs))
		for _, id := range sortedCopy(f.IDs, func(a, b host.ID) int { return bytes.Compare(a[:], b[:]) }) {
			b = append(b, id[:]...)
		}
	}
	if f.Authors != nil {
		begin('a', len(f.Authors))
		for _, key := range sortedCopy(f.Authors, func(a, b host.PubKey) int { return bytes.Compare(a[:], b[:]) }) {
			b = append(b, key[:]...)
		}
	}
	if f.Kinds != nil {
		begin('k', len(f.Kinds))
		for _, kind := range sortedCopy(f.Kinds, compareKinds) {
			b = binary.BigEndian.AppendUint16(b, uint16(kind))
		}
	}
	tags := slices.Clone(f.Tags)
	slices.SortStableFunc(tags, func(a, b host.TagFilter) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range tags {
		begin('t', len(t.Values))
		b = append(b, t.Name)
		for _, v := range sortedCopy(t.Values, cmp.Compare[string]) {
			text(v)
		}
	}
	sum := sha256.Sum256(b)
	return fingerprint(sum[:len(print)])
}
