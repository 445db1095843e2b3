package abi

// Event is the message Event for an encoder. T is the writer's type of a tag.
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
		b = appendTagOf(b, tag)
	}
	b = appendNonEmpty(b, 6, e.Content)
	return appendNonEmpty(b, 7, e.Sig)
}

// appendTagOf appends a tag. Hosts encode each event for policies, so that a tag whose
// lengths take a byte each, as nearly all do, is written in one go.
func appendTagOf(b []byte, tag []string) []byte {
	const head = 2 // key and length
	size := 0
	for _, item := range tag {
		size += head + len(item)
	}
	if size >= 0x80 {
		return appendLongTag(b, tag)
	}
	at := len(b) + head
	if at+size > cap(b) {
		b = append(b, make([]byte, head+size)...)
	}
	b = b[:at+size]
	b[at-2], b[at-1] = tagKey, byte(size)
	for _, item := range tag {
		b[at], b[at+1] = 1<<3|wireBytes, byte(len(item))
		at += head
		at += copy(b[at:], item)
	}
	return b
}

// appendLongTag is appendTagOf for tags of any length.
func appendLongTag(b []byte, tag []string) []byte {
	b, start := open(b, 5)
	for _, item := range tag {
		b = appendField(b, 1, item)
	}
	return seal(b, start)
}

// AppendEventOf appends e as the next event of an EventList. The length of nearly every
// event takes two bytes, which are left free for it.
func AppendEventOf[T ~[]string](b []byte, e *Event[T]) []byte {
	b = append(b, 1<<3|wireBytes, 0, 0)
	start := len(b)
	b = AppendEvent(b, e)
	if size := len(b) - start; size >= 0x80 && size < 1<<14 {
		b[start-2], b[start-1] = byte(size)|0x80, byte(size>>7)
		return b
	}
	moved := copy(b[start-1:], b[start:])
	return seal(b[:start-1+moved], start-1)
}

// AppendMore says, at the end of an EventList, that others may match.
func AppendMore(b []byte) []byte { return appendBool(b, 2, true) }

// EventView reads an Event in place.
type EventView struct {
	id, pubkey, sig, content []byte
	tags                     []byte // from the key of the first tag to the end of the last
	createdAt                int64
	kind                     uint32
}

// Decode makes v a view of b. The tags are looked into only when they are read.
func (v *EventView) Decode(b []byte) error {
	if v.usual(b) {
		return nil
	}
	return v.decodeAny(b)
}

// pastTags returns where the tags of less than 128 bytes end that begin at pos. It
// is a small loop of its own: an event may have very many tags, and a guest pays for
// each round by the size of the function.
//
//go:noinline
func pastTags(b []byte, pos int) int {
	for pos+1 < len(b) && b[pos] == tagKey {
		end := pos + 2 + int(b[pos+1])
		if b[pos+1] >= 0x80 || end > len(b) {
			break
		}
		pos = end
	}
	return pos
}

// countTags is how many tags pastTags passes.
//
//go:noinline
func countTags(b []byte) (n int) {
	for pos := 0; pos+1 < len(b) && b[pos] == tagKey && b[pos+1] < 0x80; n++ {
		if pos += 2 + int(b[pos+1]); pos > len(b) {
			break
		}
	}
	return n
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

// TagBytes returns the size of the encoded tags: at least two bytes for each tag and for each item,
// and the items themselves. It costs nothing, and bounds the cost of walking the tags.
func (v *EventView) TagBytes() int { return len(v.tags) }

// TagCount returns the number of tags, for much less than walking them costs.
func (v *EventView) TagCount() (n int) {
	for rest := v.tags; len(rest) > 0; {
		n += countTags(rest)
		// The rest begins with a tag of another shape, or with another field.
		it := TagIter{tags: rest, next: pastTags(rest, 0)}
		if !it.nextAny() {
			break
		}
		n++
		rest = rest[it.next:]
	}
	return n
}

// Tags returns an iterator over the tags.
func (v *EventView) Tags() TagIter { return TagIter{tags: v.tags} }

// TagIter walks the tags of an event:
//
//	for it := event.Tags(); it.Next(); {
//		if it.Name() == "t" {
//			topic := it.Value()
//
// It holds places instead of slices, so that Next writes no pointers: while a guest's
// runtime collects its garbage, each of those would cost as much as the rest of a step.
type TagIter struct {
	tags             []byte
	next             int // where the next tag begins
	tag, name, value span
}

// span is a part of an iterator's tags.
type span struct{ from, to int }

const tagKey = 5<<3 | wireBytes

// Next moves to the next tag, and reports whether there is one.
//
// It reads name and value together, in one function without calls, if tag and items are
// shorter than 128 bytes, as most are: a guest pays for each call.
func (it *TagIter) Next() bool {
	b, at := it.tags, it.next
	if len(b)-at < 4 {
		return it.nextShort()
	}
	const short = 0x80ff80ff // the keys, and what is set in a length of two bytes
	head := uint32At(b, at)
	name, end := at+4, at+2+int(head>>8&0xff)
	value := name + int(head>>24) // its key
	if head&0xffff == tagKey {    // no items: many of them make a large event
		it.next, it.tag, it.name, it.value = end, span{end, end}, span{}, span{}
		return true
	}
	if head&short != itemKey<<16|tagKey || end > len(b) || value > end {
		return it.nextLong()
	}
	it.next, it.tag, it.name, it.value = end, span{at + 2, end}, span{name, value}, span{}
	if value == end {
		return true
	}
	if end-value < 2 || b[value] != itemKey || b[value+1] >= 0x80 {
		return it.items()
	}
	last := value + 2 + int(b[value+1])
	if last > end {
		return it.items()
	}
	it.value = span{value + 2, last}
	return true
}

// nextShort is Next where fewer than four bytes are left.
func (it *TagIter) nextShort() bool {
	if it.next == len(it.tags) {
		it.tag, it.name, it.value = span{}, span{}, span{}
		return false
	}
	return it.nextAny()
}

// nextLong is Next for tags and items shorter than 16 KiB.
func (it *TagIter) nextLong() bool {
	b := it.tags
	at := it.next
	if len(b)-at < 2 || b[at] != tagKey {
		return it.nextAny()
	}
	n := int(b[at+1])
	at += 2
	if n >= 0x80 {
		if at == len(b) || b[at] >= 0x80 {
			return it.nextAny()
		}
		n = n&0x7f | int(b[at])<<7
		at++
	}
	if n > len(b)-at {
		return it.nextAny()
	}
	b = b[:at+n]
	it.tag, it.next = span{at, len(b)}, len(b)
	if n == 0 {
		it.name, it.value = span{}, span{}
		return true
	}
	if n < 2 || b[at] != itemKey {
		return it.items()
	}
	n = int(b[at+1])
	at += 2
	if n >= 0x80 {
		if at == len(b) || b[at] >= 0x80 {
			return it.items()
		}
		n = n&0x7f | int(b[at])<<7
		at++
	}
	if n > len(b)-at {
		return it.items()
	}
	it.name = span{at, at + n}
	at += n
	if at == len(b) {
		it.value = span{}
		return true
	}
	if len(b)-at < 2 || b[at] != itemKey {
		return it.items()
	}
	n = int(b[at+1])
	at += 2
	if n >= 0x80 {
		if at == len(b) || b[at] >= 0x80 {
			return it.items()
		}
		n = n&0x7f | int(b[at])<<7
		at++
	}
	if n > len(b)-at {
		return it.items()
	}
	it.value = span{at, at + n}
	return true
}

// nextAny is Next for tags of any shape.
func (it *TagIter) nextAny() bool {
	for r := (reader{rest: it.tags[it.next:]}); r.next(); {
		if r.key == tagKey {
			it.next = len(it.tags) - len(r.rest)
			it.tag = span{it.next - len(r.data), it.next}
			return it.items()
		}
	}
	it.next = len(it.tags)
	it.tag, it.name, it.value = span{}, span{}, span{}
	return false
}

// items reads name and value of items of any shape.
func (it *TagIter) items() bool {
	it.name, it.value = span{}, span{}
	part := &it.name
	for r := (reader{rest: it.tags[it.tag.from:it.tag.to]}); r.next(); {
		if r.key != itemKey {
			continue
		}
		end := it.tag.to - len(r.rest)
		*part = span{end - len(r.data), end}
		if part == &it.value {
			break
		}
		part = &it.value
	}
	return true
}

// Name returns the first item of the tag that Next moved to: "e", "p", "d", …
func (it *TagIter) Name() string { return text(it.tags[it.name.from:it.name.to]) }

// Value returns the second item, "" if there is none.
func (it *TagIter) Value() string { return text(it.tags[it.value.from:it.value.to]) }

// Tag returns the tag that Next moved to.
func (it *TagIter) Tag() TagView { return TagView{it.tags[it.tag.from:it.tag.to]} }

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

// Items returns an iterator over the items, the name included.
func (t TagView) Items() BytesIter { return fields(t.b, 1) }

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
	for b, at := t.b, 0; at < len(b); {
		if len(b)-at < 2 || b[at] != itemKey {
			return n + sizeAny(b[at:])
		}
		end, start := int(b[at+1]), at+2
		if end >= 0x80 {
			if start == len(b) || b[start] >= 0x80 {
				return n + sizeAny(b[at:])
			}
			end = end&0x7f | int(b[start])<<7
			start++
		}
		if end > len(b)-start {
			return n + sizeAny(b[at:])
		}
		n += end
		at = start + end
	}
	return n
}

// sizeAny is Size of items of any shape.
func sizeAny(b []byte) (n int) {
	for r := (reader{rest: b}); r.next(); {
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
type EventListView struct {
	r    reader
	more bool
}

// ReadEventList returns a view of b.
func ReadEventList(b []byte) EventListView { return EventListView{r: reader{rest: b}} }

// Next makes v a view of the next event, and reports whether there is one.
func (l *EventListView) Next(v *EventView) bool {
	for l.r.next() {
		if l.r.is(1, wireBytes) {
			return v.Decode(l.r.data) == nil
		}
		if l.r.is(2, wireVarint) {
			l.more = l.r.num != 0
		}
	}
	return false
}

// More reports, at the end of the list, whether others may match.
func (l *EventListView) More() bool { return l.more }
