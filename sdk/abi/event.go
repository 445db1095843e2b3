package abi

// Event is the message Event as it is written. T is the writer's type of a tag.
type Event[T ~[]string] struct {
	ID, PubKey, Sig []byte
	CreatedAt       int64
	Kind            uint32
	Tags            []T
	Content         string
}

// AppendEvent appends e.
func AppendEvent[T ~[]string](b []byte, e *Event[T]) []byte {
	b = appendNonEmpty(b, 1, e.ID)
	b = appendNonEmpty(b, 2, e.PubKey)
	b = appendUint(b, 3, uint64(e.CreatedAt))
	b = appendUint(b, 4, uint64(e.Kind))
	for _, tag := range e.Tags {
		b = appendVarint(appendKey(b, 5, wireBytes), uint64(sizeTag(tag)))
		for _, item := range tag {
			b = appendField(b, 1, item)
		}
	}
	b = appendNonEmpty(b, 6, e.Content)
	return appendNonEmpty(b, 7, e.Sig)
}

// AppendEventOf appends e as the next event of an EventList.
func AppendEventOf[T ~[]string](b []byte, e *Event[T]) []byte {
	b = appendVarint(appendKey(b, 1, wireBytes), uint64(sizeEvent(e)))
	return AppendEvent(b, e)
}

func sizeTag[T ~[]string](tag T) int {
	n := 0
	for _, item := range tag {
		n += sizeBytes(len(item))
	}
	return n
}

func sizeEvent[T ~[]string](e *Event[T]) int {
	n := sizeNonEmpty(len(e.ID)) + sizeNonEmpty(len(e.PubKey)) + sizeNonEmpty(len(e.Content)) + sizeNonEmpty(len(e.Sig))
	n += sizeUint(uint64(e.CreatedAt)) + sizeUint(uint64(e.Kind))
	for _, tag := range e.Tags {
		n += sizeBytes(sizeTag(tag))
	}
	return n
}

func sizeNonEmpty(n int) int {
	if n == 0 {
		return 0
	}
	return sizeBytes(n)
}

func sizeUint(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + sizeVarint(v)
}

// EventView reads an Event in place.
type EventView struct {
	id, pubkey, sig, content []byte
	tags                     []byte // from the key of the first tag to the end of the last
	createdAt                int64
	kind                     uint32
}

// Decode makes v a view of b. The tags are looked into only when they are read.
//
// It is one loop without calls, since a guest pays for each: a third of the time
// of a decision. What that loop does not know it leaves to decodeAny.
func (v *EventView) Decode(b []byte) error {
	*v = EventView{}
	first, last := -1, 0
	for pos := 0; pos < len(b); {
		start := pos
		k := b[pos]
		if k >= 0x80 || k&^wireBytes&7 != 0 {
			return v.decodeAny(b)
		}
		var n uint64
		var shift uint
		for pos++; ; pos++ {
			if pos == len(b) || shift > 56 {
				return v.decodeAny(b)
			}
			c := b[pos]
			n |= uint64(c&0x7f) << shift
			if c < 0x80 {
				pos++
				break
			}
			shift += 7
		}
		var data []byte
		if k&7 == wireBytes {
			if n > uint64(len(b)-pos) {
				return ErrMalformed
			}
			data = b[pos : pos+int(n)]
			pos += int(n)
		}
		switch k {
		case 5<<3 | wireBytes:
			if first < 0 {
				first = start
			}
			last = pos
		case 1<<3 | wireBytes:
			v.id = data
		case 2<<3 | wireBytes:
			v.pubkey = data
		case 3<<3 | wireVarint:
			v.createdAt = int64(n)
		case 4<<3 | wireVarint:
			v.kind = uint32(n)
		case 6<<3 | wireBytes:
			v.content = data
		case 7<<3 | wireBytes:
			v.sig = data
		case 0, wireBytes: // field number zero
			return ErrMalformed
		}
	}
	if first >= 0 {
		v.tags = b[first:last]
	}
	return nil
}

// decodeAny is Decode for messages of any shape.
func (v *EventView) decodeAny(b []byte) error {
	*v = EventView{}
	r := reader{rest: b}
	first, last := -1, 0
	for start := 0; r.next(); start = len(b) - len(r.rest) {
		switch r.key {
		case 5<<3 | wireBytes:
			if first < 0 {
				first = start
			}
			last = len(b) - len(r.rest)
		case 1<<3 | wireBytes:
			v.id = r.data
		case 2<<3 | wireBytes:
			v.pubkey = r.data
		case 3<<3 | wireVarint:
			v.createdAt = int64(r.num)
		case 4<<3 | wireVarint:
			v.kind = uint32(r.num)
		case 6<<3 | wireBytes:
			v.content = r.data
		case 7<<3 | wireBytes:
			v.sig = r.data
		}
	}
	if first >= 0 {
		v.tags = b[first:last]
	}
	return r.err()
}

func (v *EventView) ID() []byte       { return v.id }
func (v *EventView) PubKey() []byte   { return v.pubkey }
func (v *EventView) Sig() []byte      { return v.sig }
func (v *EventView) CreatedAt() int64 { return v.createdAt }
func (v *EventView) Kind() uint32     { return v.kind }
func (v *EventView) Content() string  { return text(v.content) }

// TagBytes returns the size of the tags as they are encoded: at least two bytes
// for each tag and for each item, and the items themselves. It costs nothing, and
// bounds what walking the tags would count.
func (v *EventView) TagBytes() int { return len(v.tags) }

// Tags returns an iterator over the tags.
func (v *EventView) Tags() TagIter { return TagIter{r: reader{rest: v.tags}} }

// TagIter walks the tags of an event:
//
//	for it := event.Tags(); it.Next(); {
//		tag := it.Tag()
//	}
type TagIter struct{ r reader }

// Next moves to the next tag, and reports whether there is one.
func (it *TagIter) Next() bool {
	for it.r.next() {
		if it.r.is(5, wireBytes) {
			return true
		}
	}
	return false
}

// Tag returns the tag that Next moved to.
func (it *TagIter) Tag() TagView { return TagView{it.r.data} }

// TagView reads a Tag in place.
type TagView struct{ b []byte }

// Len returns the number of items, the name included.
func (t TagView) Len() int {
	n := 0
	for r := (reader{rest: t.b}); r.next(); {
		if r.key == itemKey {
			n++
		}
	}
	return n
}

// Item returns the item at index i, "" if there is none.
func (t TagView) Item(i int) string {
	for r := (reader{rest: t.b}); r.next(); {
		if r.key != itemKey {
			continue
		}
		if i == 0 {
			return text(r.data)
		}
		i--
	}
	return ""
}

const itemKey = 1<<3 | wireBytes

// Name returns the first item: "e", "p", "d", …
func (t TagView) Name() string { return t.Item(0) }

// Value returns the second item, "" if there is none.
func (t TagView) Value() string { return t.Item(1) }

// Size returns the total length of the items in bytes.
func (t TagView) Size() int {
	n := 0
	for r := (reader{rest: t.b}); r.next(); {
		if r.is(1, wireBytes) {
			n += len(r.data)
		}
	}
	return n
}

// EventListView reads an EventList in place:
//
//	for list := abi.ReadEventList(b); list.Next(&event); {
//	}
type EventListView struct{ r reader }

// ReadEventList returns a view of b.
func ReadEventList(b []byte) EventListView { return EventListView{reader{rest: b}} }

// Next makes v a view of the next event, and reports whether there is one.
func (l *EventListView) Next(v *EventView) bool {
	for l.r.next() {
		if l.r.is(1, wireBytes) {
			return v.Decode(l.r.data) == nil
		}
	}
	return false
}
