package abi

// QueryFilter is a client's filter as it is written. I, P, K and T are the
// writer's types of an id, a public key, a kind and a condition on a tag.
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

// AppendFilterOf appends f as the next filter of a QueryRequest. What else the
// request holds follows the filters: [AppendQueryRequest].
func AppendFilterOf[I, P ~[32]byte, K ~uint16, T ~struct {
	Name   byte
	Values []string
}](b []byte, f *QueryFilter[I, P, K, T]) []byte {
	kinds := 0
	for _, kind := range f.Kinds {
		kinds += sizeVarint(uint64(kind))
	}
	size := (len(f.IDs)+len(f.Authors))*sizeBytes(32) + sizeNonEmpty(kinds)
	for i := range f.Tags {
		size += sizeBytes(sizeQueryTag(f.Tags[i]))
	}
	if f.Since != nil {
		size += 1 + sizeVarint(uint64(*f.Since))
	}
	if f.Until != nil {
		size += 1 + sizeVarint(uint64(*f.Until))
	}
	if f.Limit >= 0 {
		size += 1 + sizeVarint(limitOf(f.Limit))
	}

	b = appendVarint(appendKey(b, 1, wireBytes), uint64(size))
	b = appendKeys(b, 1, f.IDs)
	b = appendKeys(b, 2, f.Authors)
	if kinds > 0 {
		b = appendVarint(appendKey(b, 3, wireBytes), uint64(kinds))
		for _, kind := range f.Kinds {
			b = appendVarint(b, uint64(kind))
		}
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
		b = appendVarint(appendKey(b, 7, wireVarint), limitOf(f.Limit))
	}
	return b
}

// queryTag is a condition on a tag with a name of one letter.
type queryTag = struct {
	Name   byte
	Values []string
}

func sizeQueryTag(t queryTag) int {
	size := sizeBytes(1)
	for _, v := range t.Values {
		size += sizeBytes(len(v))
	}
	return size
}

func appendQueryTag(b []byte, t queryTag) []byte {
	b = appendVarint(appendKey(b, 4, wireBytes), uint64(sizeQueryTag(t)))
	b = append(appendKey(b, 1, wireBytes), 1, t.Name)
	for _, v := range t.Values {
		b = appendField(b, 2, v)
	}
	return b
}

// limitOf returns a limit as it is written.
func limitOf(limit int) uint64 { return min(uint64(limit), 1<<32-1) }

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
