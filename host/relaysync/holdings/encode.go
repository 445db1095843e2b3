package holdings

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"talon/host"
)

// A set is written as a version, the number of conditions, these, ascending, and the prefixes,
// ascending.
const version = 2

const conditionBytes = 4

// Encode encodes the set for [Decode].
func (s *Set) Encode() []byte {
	s.merge()
	b := make([]byte, 0, 5+len(s.compared)*conditionBytes+len(s.merged))
	b = append(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.compared)))
	for _, c := range s.compared {
		b = binary.BigEndian.AppendUint32(b, uint32(c))
	}
	return append(b, s.merged...)
}

// Decode returns the encoded set, or an empty one if it cannot be read or is larger than
// the limit.
func Decode(b []byte, limit int) *Set {
	s := New(limit)
	if len(b) < 5 || b[0] != version {
		return s
	}
	conditions := int64(binary.BigEndian.Uint32(b[1:]))
	list := b[5:]
	if conditions > maxConditions || int64(len(list)) < conditions*conditionBytes {
		return s
	}
	prefixes := list[conditions*conditionBytes:]
	if len(prefixes)%prefixBytes != 0 || len(prefixes)/prefixBytes > limit || !ascending(prefixes) {
		return s
	}
	compared := make([]condition, conditions)
	for i := range compared {
		compared[i] = condition(binary.BigEndian.Uint32(list[i*conditionBytes:]))
		if i > 0 && compared[i-1] >= compared[i] {
			return s
		}
	}
	s.kept, s.merged, s.compared = true, bytes.Clone(prefixes), compared
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

// TakeChanged reports whether the set has changed since the last call.
func (s *Set) TakeChanged() bool {
	changed := s.changed && s.kept
	s.changed = false
	return changed
}

// condition stands for what a filter asks for, without since, until and limit: for one value
// of its tag if it has one tag, else for all of it. Two that are alike cost bytes.
type condition uint32

// conditionsOf returns what a filter asks for, in an order that does not depend on that of
// its values.
func conditionsOf(f *host.Filter) []condition {
	var b []byte
	begin := func(what byte, n int) {
		b = append(b, what)
		b = binary.AppendUvarint(b, uint64(n))
	}
	value := func(v string) {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
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
		for _, kind := range sortedCopy(f.Kinds, cmp.Compare[host.Kind]) {
			b = binary.BigEndian.AppendUint16(b, uint16(kind))
		}
	}
	if len(f.Tags) == 1 {
		b = append(b, 't', f.Tags[0].Name)
		common := len(b)
		list := make([]condition, 0, len(f.Tags[0].Values))
		for _, v := range f.Tags[0].Values {
			b = append(b[:common], v...)
			list = append(list, conditionOf(b))
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	tags := slices.Clone(f.Tags)
	slices.SortStableFunc(tags, func(a, b host.TagFilter) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range tags {
		begin('t', len(t.Values))
		b = append(b, t.Name)
		for _, v := range sortedCopy(t.Values, cmp.Compare[string]) {
			value(v)
		}
	}
	return []condition{conditionOf(b)}
}

func conditionOf(b []byte) condition {
	sum := sha256.Sum256(b)
	return condition(binary.BigEndian.Uint32(sum[:]))
}

// sortedCopy returns the values in an order that does not depend on theirs, each once.
func sortedCopy[T any](list []T, compare func(a, b T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return slices.CompactFunc(list, func(a, b T) bool { return compare(a, b) == 0 })
}
