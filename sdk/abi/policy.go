package abi

// appendKeys appends a field for each key.
func appendKeys[K ~[32]byte](b []byte, field byte, keys []K) []byte {
	for i := range keys {
		key := [32]byte(keys[i])
		b = append(appendKey(b, field, wireBytes), 32)
		b = append(b, key[:]...)
	}
	return b
}

// lastField returns the data of a field that is there once, nil if it is not.
func lastField(b []byte, field uint32) (data []byte) {
	for r := (reader{rest: b}); r.next(); {
		if r.is(field, wireBytes) {
			data = r.data
		}
	}
	return data
}

// BytesIter walks a repeated field of bytes or text. As [TagIter] does, it holds places.
type BytesIter struct {
	b              []byte
	next, from, to int // where the next field begins, and the value
	key            uint64
}

func fields(b []byte, field uint32) BytesIter {
	return BytesIter{b: b, key: key(field, wireBytes)}
}

// Next moves to the next value, and reports whether there is one.
func (it *BytesIter) Next() bool {
	// A value shorter than 128 bytes, as most are, is read without a call.
	if b, at := it.b, it.next; len(b)-at >= 2 && uint64(b[at]) == it.key && b[at+1] < 0x80 {
		if end := at + 2 + int(b[at+1]); end <= len(b) {
			it.from, it.to, it.next = at+2, end, end
			return true
		}
	}
	return it.next < len(it.b) && it.nextAny()
}

func (it *BytesIter) nextAny() bool {
	for r := (reader{rest: it.b[it.next:]}); r.next(); {
		if r.key == it.key {
			it.next = len(it.b) - len(r.rest)
			it.from, it.to = it.next-len(r.data), it.next
			return true
		}
	}
	it.next = len(it.b)
	return false
}

// Bytes returns the value that Next moved to.
func (it *BytesIter) Bytes() []byte { return it.b[it.from:it.to:it.to] }

// Key returns the value as a key or an id of 32 bytes, filled up with zeros.
func (it *BytesIter) Key() (key [32]byte) {
	copy(key[:], it.Bytes())
	return key
}

// Text returns Bytes as a string.
func (it *BytesIter) Text() string { return text(it.Bytes()) }

// AdmitRequest is the message AdmitRequest for an encoder, with its Source. T and K are the
// writer's types of a tag and of a public key.
type AdmitRequest[T ~[]string, K ~[32]byte] struct {
	Event   Event[T]
	Origin  uint32
	Address []byte
	Relay   string
	Authed  []K
	Now     int64
}

// AppendAdmitRequest appends q.
func AppendAdmitRequest[T ~[]string, K ~[32]byte](b []byte, q *AdmitRequest[T, K]) []byte {
	b = AppendEventOf(b, &q.Event)
	b, at := open(b, 2)
	b = appendUint(b, 1, uint64(q.Origin))
	b = appendNonEmpty(b, 2, q.Address)
	b = appendNonEmpty(b, 3, q.Relay)
	b = seal(appendKeys(b, 4, q.Authed), at)
	return appendUint(b, 3, uint64(q.Now))
}

// AdmitRequestView reads an AdmitRequest in place.
type AdmitRequestView struct {
	Event  EventView
	Source SourceView
	Now    int64
}

// Decode makes v a view of b. The source is looked into only when it is read.
func (v *AdmitRequestView) Decode(b []byte) error {
	if v.usual(b) {
		return nil
	}
	return v.decodeAny(b)
}

// decodeAny is Decode for messages of any shape.
//
//go:noinline
func (v *AdmitRequestView) decodeAny(b []byte) error {
	v.Event, v.Source, v.Now = EventView{}, SourceView{}, 0
	r := reader{rest: b}
	for r.next() {
		switch r.key {
		case 1<<3 | wireBytes:
			if err := v.Event.Decode(r.data); err != nil {
				return err
			}
		case 2<<3 | wireBytes:
			v.Source.b = r.data
		case 3<<3 | wireVarint:
			v.Now = int64(r.num)
		}
	}
	return r.err()
}

// SourceView reads a Source in place.
type SourceView struct{ b []byte }

// Origin returns one of OriginClient, OriginImport and OriginSync.
func (v SourceView) Origin() uint32 {
	origin := uint64(OriginUnspecified)
	for r := (reader{rest: v.b}); r.next(); {
		if r.is(1, wireVarint) {
			origin = r.num
		}
	}
	return uint32(origin)
}

func (v SourceView) Address() string { return text(lastField(v.b, 2)) }
func (v SourceView) Relay() string   { return text(lastField(v.b, 3)) }

// Keys returns an iterator over the keys that the client has proven.
func (v SourceView) Keys() BytesIter { return fields(v.b, 4) }

// Authed returns the i-th key that the client has proven, nil if there are
// fewer.
func (v SourceView) Authed(i int) []byte {
	for r := (reader{rest: v.b}); r.next(); {
		if !r.is(4, wireBytes) {
			continue
		}
		if i == 0 {
			return r.data
		}
		i--
	}
	return nil
}

// AppendVerdict appends a verdict whose reason is "prefix: text", or empty if
// both are. The pieces are joined here so that a policy need not.
func AppendVerdict(b []byte, action uint32, rule, prefix, reason string) []byte {
	// Most verdicts are an action and a rule.
	end := len(b) + 4 + len(rule)
	if action-1 >= 0x7f || uint(len(rule)-1) >= 0x7f || len(prefix)|len(reason) != 0 || end > cap(b) {
		return appendVerdict(b, action, rule, prefix, reason)
	}
	head := b[len(b):end]
	head[0], head[1], head[2], head[3] = 1<<3|wireVarint, byte(action), 2<<3|wireBytes, byte(len(rule))
	copy(head[4:], rule)
	return b[:end]
}

// appendVerdict is AppendVerdict for verdicts of any shape.
//
//go:noinline
func appendVerdict(b []byte, action uint32, rule, prefix, reason string) []byte {
	b = appendUint(b, 1, uint64(action))
	b = appendNonEmpty(b, 2, rule)
	if prefix == "" {
		return appendNonEmpty(b, 3, reason)
	}
	b = appendVarint(appendKey(b, 3, wireBytes), uint64(len(prefix)+2+len(reason)))
	b = append(b, prefix...)
	b = append(b, ": "...)
	return append(b, reason...)
}

// AppendRetry appends to a verdict for how many seconds a refused event is decided
// about once more when another of its author is accepted.
func AppendRetry(b []byte, seconds uint32) []byte { return appendUint(b, 10, uint64(seconds)) }

// AppendParent appends to a verdict the id or the address of the held event on which an event
// depends.
func AppendParent(b []byte, parent string) []byte { return appendNonEmpty(b, 11, parent) }

// AppendWake appends to a verdict the encoded filter of another event for which an event waits, and
// for how many seconds. 0 seconds is what the host chooses.
func AppendWake(b, filter []byte, seconds uint32) []byte {
	return appendField(appendUint(b, 7, uint64(seconds)), 14, filter)
}

// AppendAudience appends to a verdict who receives an event: keys of 32 bytes, one after the
// other, or a set.
func AppendAudience(b []byte, keys, set string) []byte {
	return appendNonEmpty(appendNonEmpty(b, 12, keys), 13, set)
}

// AppendEnd appends to a verdict that the host ends the connection.
func AppendEnd(b []byte) []byte { return appendUint(b, 4, 1) }

// AppendLimits appends to a verdict the most bytes that the author, and the git data of the
// repository, may take. 0 is no limit.
func AppendLimits(b []byte, author, repository int64) []byte {
	return appendUint(appendUint(b, 5, uint64(author)), 6, uint64(repository))
}

// Usage is how much of the store an author or a repository takes: the answer of CapUsageGet.
type Usage struct {
	Events int64
	Bytes  int64 // of the JSON of the events
	Git    int64 // bytes of git data
}

// UsageBytes is the length of an encoded Usage.
const UsageBytes = 24

// AppendUsage appends three numbers of 8 bytes, little endian.
func AppendUsage(b []byte, u Usage) []byte {
	for _, n := range [...]int64{u.Events, u.Bytes, u.Git} {
		b = append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56))
	}
	return b
}

// DecodeUsage reads what AppendUsage wrote. Numbers that are missing are 0.
func DecodeUsage(b []byte) (u Usage) {
	for _, n := range [...]*int64{&u.Events, &u.Bytes, &u.Git} {
		if len(b) < 8 {
			return u
		}
		for i := 7; i >= 0; i-- {
			*n = *n<<8 | int64(b[i])
		}
		b = b[8:]
	}
	return u
}
