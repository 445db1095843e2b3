package abi

import "unicode/utf8"

// Filter is the message Filter.
type Filter struct {
	IDs     [][32]byte
	Authors [][32]byte
	Kinds   []uint32
	Tags    []TagFilter
	Since   *int64
	Until   *int64
	Limit   uint32
	Header  bool // id, author, time and kind of each event are enough
}

// TagFilter is the message TagFilter.
type TagFilter struct {
	Name   string
	Values []string
}

// AppendFilter appends f.
func AppendFilter(b []byte, f *Filter) []byte {
	for i := range f.IDs {
		b = appendField(b, 1, f.IDs[i][:])
	}
	for i := range f.Authors {
		b = appendField(b, 2, f.Authors[i][:])
	}
	if len(f.Kinds) > 0 {
		size := 0
		for _, kind := range f.Kinds {
			size += sizeVarint(uint64(kind))
		}
		b = appendVarint(appendKey(b, 3, wireBytes), uint64(size))
		for _, kind := range f.Kinds {
			b = appendVarint(b, uint64(kind))
		}
	}
	for i := range f.Tags {
		t := &f.Tags[i]
		size := sizeNonEmpty(len(t.Name))
		for _, v := range t.Values {
			size += sizeBytes(len(v))
		}
		b = appendVarint(appendKey(b, 4, wireBytes), uint64(size))
		b = appendNonEmpty(b, 1, t.Name)
		for _, v := range t.Values {
			b = appendField(b, 2, v)
		}
	}
	if f.Since != nil {
		b = appendVarint(appendKey(b, 5, wireVarint), uint64(*f.Since))
	}
	if f.Until != nil {
		b = appendVarint(appendKey(b, 6, wireVarint), uint64(*f.Until))
	}
	b = appendUint(b, 7, uint64(f.Limit))
	return appendBool(b, 8, f.Header)
}

// DecodeFilter reads a Filter that came from a module. It holds at most
// maxValues ids, authors, kinds and tag values together; its memory is bounded
// by that and by len(b).
func DecodeFilter(b []byte, maxValues int) (Filter, error) {
	var f Filter
	r := reader{rest: b}
	values := 0
	for r.next() {
		switch {
		case r.is(1, wireBytes), r.is(2, wireBytes):
			if len(r.data) != 32 {
				return Filter{}, ErrMalformed
			}
			if values++; values > maxValues {
				return Filter{}, ErrMalformed
			}
			if r.is(1, wireBytes) {
				f.IDs = append(f.IDs, [32]byte(r.data))
			} else {
				f.Authors = append(f.Authors, [32]byte(r.data))
			}
		case r.is(3, wireVarint):
			f.Kinds = append(f.Kinds, uint32(min(r.num, 1<<32-1)))
			values++
		case r.is(3, wireBytes):
			before := len(f.Kinds) // a kind takes at most three bytes
			if len(r.data) > 3*maxValues || !eachVarint(r.data, func(v uint64) { f.Kinds = append(f.Kinds, uint32(min(v, 1<<32-1))) }) {
				return Filter{}, ErrMalformed
			}
			values += len(f.Kinds) - before
		case r.is(4, wireBytes):
			t, err := decodeTagFilter(r.data, maxValues-values)
			if err != nil {
				return Filter{}, err
			}
			f.Tags = append(f.Tags, t)
			values += 1 + len(t.Values)
		case r.is(5, wireVarint):
			f.Since = ref(int64(r.num))
		case r.is(6, wireVarint):
			f.Until = ref(int64(r.num))
		case r.is(7, wireVarint):
			f.Limit = uint32(min(r.num, 1<<32-1))
		case r.is(8, wireVarint):
			f.Header = r.num != 0
		}
		if values > maxValues {
			return Filter{}, ErrMalformed
		}
	}
	if r.bad {
		return Filter{}, ErrMalformed
	}
	return f, nil
}

func ref[T any](v T) *T { return &v }

func decodeTagFilter(b []byte, maxValues int) (TagFilter, error) {
	var t TagFilter
	r := reader{rest: b}
	for r.next() {
		if !r.is(1, wireBytes) && !r.is(2, wireBytes) {
			continue
		}
		if !utf8.Valid(r.data) {
			return t, ErrMalformed
		}
		if r.is(1, wireBytes) {
			t.Name = string(r.data)
			continue
		}
		if len(t.Values) >= maxValues {
			return t, ErrMalformed
		}
		t.Values = append(t.Values, string(r.data))
	}
	return t, r.err()
}
