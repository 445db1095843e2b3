package host

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// Canonical returns the filter with lists of its own, sorted, and each value once. Filters with
// the same conditions have the same canonical form. It shares no text with the message that the
// filter came in, which may be much longer.
func (f Filter) Canonical() Filter {
	f.IDs = canonicalList(f.IDs, func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	f.Authors = canonicalList(f.Authors, func(a, b PubKey) int { return bytes.Compare(a[:], b[:]) })
	f.Kinds = canonicalList(f.Kinds, cmp.Compare[Kind])
	f.Tags = slices.Clone(f.Tags)
	for i := range f.Tags {
		values := canonicalList(f.Tags[i].Values, strings.Compare)
		for j := range values {
			values[j] = strings.Clone(values[j])
		}
		f.Tags[i].Values = values
	}
	slices.SortFunc(f.Tags, func(a, b TagFilter) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.Values, b.Values))
	})
	return f
}

// canonicalList returns a sorted copy with each value once, nil for nil.
func canonicalList[T comparable](list []T, compare func(a, b T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return slices.Compact(list)
}

// Key returns a text that is the same for filters with the same conditions, in any order. The
// limit is no condition.
func (f Filter) Key() string {
	f = f.Canonical()
	b := []byte{}
	list := func(name byte, given bool, n int) {
		if given {
			b = append(b, name)
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	list('i', f.IDs != nil, len(f.IDs))
	for i := range f.IDs {
		b = append(b, f.IDs[i][:]...)
	}
	list('a', f.Authors != nil, len(f.Authors))
	for i := range f.Authors {
		b = append(b, f.Authors[i][:]...)
	}
	list('k', f.Kinds != nil, len(f.Kinds))
	for _, k := range f.Kinds {
		b = binary.AppendUvarint(b, uint64(k))
	}
	for _, t := range f.Tags {
		list('#', true, len(t.Values))
		b = append(b, t.Name)
		for _, v := range t.Values {
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	if f.Since != nil {
		b = binary.AppendUvarint(append(b, 's'), uint64(*f.Since))
	}
	if f.Until != nil {
		b = binary.AppendUvarint(append(b, 'u'), uint64(*f.Until))
	}
	return string(b)
}

// FilterValues returns the number of values of filters, as limits of relays count them: those of
// every condition, and one for each filter.
func FilterValues(filters ...Filter) (n int) {
	for i := range filters {
		f := &filters[i]
		n += 1 + len(f.IDs) + len(f.Authors) + len(f.Kinds)
		for j := range f.Tags {
			n += len(f.Tags[j].Values)
		}
	}
	return n
}
