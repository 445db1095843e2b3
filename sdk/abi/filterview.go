package abi

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

// NumIDs, NumAuthors, NumKinds and NumTags count what the filter asks for. They
// cost nothing.
func (v *FilterView) NumIDs() int     { return v.ids }
func (v *FilterView) NumAuthors() int { return v.authors }
func (v *FilterView) NumKinds() int   { return v.kinds }
func (v *FilterView) NumTags() int    { return v.tags }

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
