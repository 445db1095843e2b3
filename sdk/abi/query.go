package abi

import (
	"unicode/utf8"
)

// QueryFilter is a client's filter for an encoder. I, P, K and T are the writer's types of an id, a
// public key, a kind and a condition on a tag.
type QueryFilter[I, P ~[32]byte, K ~uint16, T ~struct {
	Name   byte
	Values []string
}] struct {
	IDs     []I
	Authors []P
	Kinds   []K
	Tags    []T
	Since   *int64
	Until   *int64
	Limit   int // as the client gave it, -1 if it gave none
}

// AppendFilterOf appends f as the next filter of a QueryRequest. The other fields of the request
// follow the filters: [AppendQueryRequest].
func AppendFilterOf[I, P ~[32]byte, K ~uint16, T ~struct {
	Name   byte
	Values []string
}](b []byte, f *QueryFilter[I, P, K, T]) []byte {
	b, at := open(b, 1)
	b = appendKeys(b, 1, f.IDs)
	b = appendKeys(b, 2, f.Authors)
	if len(f.Kinds) > 0 {
		var packed int
		b, packed = open(b, 3)
		for _, kind := range f.Kinds {
			b = appendVarint(b, uint64(kind))
		}
		b = seal(b, packed)
	}
	for i := range f.Tags {
		b = appendQueryTag(b, f.Tags[i])
	}
	if f.Since != nil {
		b = appendVarint(appendKey(b, 5, wireVarint), uint64(*f.Since))
	}
	if f.Until != nil {
		b = appendVarint(appendKey(b, 6, wireVarint), uint64(*f.Until))
	}
	if f.Limit >= 0 {
		b = appendVarint(appendKey(b, 7, wireVarint), min(uint64(f.Limit), 1<<32-1))
	}
	return seal(b, at)
}

// queryTag is a condition on a tag with a name of one letter.
type queryTag = struct {
	Name   byte
	Values []string
}

func appendQueryTag(b []byte, t queryTag) []byte {
	b, at := open(b, 4)
	b = append(appendKey(b, 1, wireBytes), 1, t.Name)
	b = appendTexts(b, 2, t.Values)
	return seal(b, at)
}

// FilterIter walks the filters of a query.
type FilterIter struct {
	it   BytesIter
	view FilterView
}

// Next moves to the next filter, and reports whether there is one.
func (it *FilterIter) Next() bool {
	return it.it.Next() && it.view.Decode(it.it.Bytes()) == nil
}

// Filter returns the filter that Next moved to.
func (it *FilterIter) Filter() FilterView { return it.view }

// FilterView reads a Filter in place.
type FilterView struct {
	b                   []byte
	ids, authors, kinds int
	tags                int
	since, until        int64
	limit               uint32
	hasSince, hasUntil  bool
	hasLimit            bool
}

// Decode makes v a view of b.
func (v *FilterView) Decode(b []byte) error {
	*v = FilterView{b: b}
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			v.ids++
		case 2<<3 | wireBytes:
			v.authors++
		case 3<<3 | wireVarint:
			v.kinds++
		case 3<<3 | wireBytes:
			for _, c := range r.data {
				if c < 0x80 { // the last byte of a kind
					v.kinds++
				}
			}
		case 4<<3 | wireBytes:
			v.tags++
		case 5<<3 | wireVarint:
			v.since, v.hasSince = int64(r.num), true
		case 6<<3 | wireVarint:
			v.until, v.hasUntil = int64(r.num), true
		case 7<<3 | wireVarint:
			v.limit, v.hasLimit = uint32(min(r.num, 1<<32-1)), true
		}
	}
	return r.err()
}

// NumIDs, NumAuthors, NumKinds and NumTags count the conditions of the filter. They cost nothing.
func (v *FilterView) NumIDs() int     { return v.ids }
func (v *FilterView) NumAuthors() int { return v.authors }
func (v *FilterView) NumKinds() int   { return v.kinds }
func (v *FilterView) NumTags() int    { return v.tags }

// Encoded returns the bytes of the filter, nil if there is none.
func (v *FilterView) Encoded() []byte { return v.b }

// IDs returns an iterator over the ids.
func (v *FilterView) IDs() BytesIter { return fields(v.b, 1) }

// Authors returns an iterator over the authors.
func (v *FilterView) Authors() BytesIter { return fields(v.b, 2) }

// Kinds returns an iterator over the kinds.
func (v *FilterView) Kinds() KindIter { return KindIter{r: reader{rest: v.b}} }

// Tags returns an iterator over the conditions on tags.
func (v *FilterView) Tags() TagFilterIter { return TagFilterIter{fields(v.b, 4)} }

// Since returns the time before which nothing is asked for, and whether there is
// one.
func (v *FilterView) Since() (int64, bool) { return v.since, v.hasSince }

// Until returns the time after which nothing is asked for, and whether there is
// one.
func (v *FilterView) Until() (int64, bool) { return v.until, v.hasUntil }

// Limit returns how many stored events are asked for, and whether the filter
// says so.
func (v *FilterView) Limit() (int, bool) { return int(v.limit), v.hasLimit }

// KindIter walks the kinds of a filter:
//
//	for it := filter.Kinds(); it.Next(); {
//		kind := it.Kind()
//	}
type KindIter struct {
	r      reader
	packed []byte
	kind   uint32
}

// Next moves to the next kind, and reports whether there is one.
func (it *KindIter) Next() bool {
	for {
		if len(it.packed) > 0 {
			kind, n := readVarint(it.packed)
			if n == 0 {
				it.packed, it.r = nil, reader{}
				return false
			}
			it.kind, it.packed = uint32(min(kind, 1<<32-1)), it.packed[n:]
			return true
		}
		if !it.r.next() {
			return false
		}
		switch it.r.key {
		case 3<<3 | wireVarint:
			it.kind = uint32(min(it.r.num, 1<<32-1))
			return true
		case 3<<3 | wireBytes:
			it.packed = it.r.data
		}
	}
}

// Kind returns the kind that Next moved to.
func (it *KindIter) Kind() uint32 { return it.kind }

// TagFilterIter walks the conditions on tags of a filter.
type TagFilterIter struct{ it BytesIter }

// Next moves to the next condition, and reports whether there is one.
func (it *TagFilterIter) Next() bool { return it.it.Next() }

// Name returns the tag's name.
func (it *TagFilterIter) Name() string { return text(lastField(it.it.Bytes(), 1)) }

// Values returns an iterator over the values, of which the tag must have one.
func (it *TagFilterIter) Values() BytesIter { return fields(it.it.Bytes(), 2) }

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
