package abi

// Input is one of the messages that a StepRequest can hold: exactly these are
// the inputs of a strategy.
type Input interface {
	// appendInput appends the input as a field of a StepRequest.
	appendInput(b []byte) []byte
}

// AppendStep appends a StepRequest. It allocates nothing else.
func AppendStep(b []byte, now int64, input Input) []byte {
	b = appendUint(b, 1, uint64(now))
	return input.appendInput(b)
}

// StepView reads a StepRequest in place.
type StepView struct {
	Now  int64
	Kind uint32 // InputInit and so on: the input that Decode found

	body []byte
}

// Decode makes v a view of b. The input is looked into only when it is read.
func (v *StepView) Decode(b []byte) error {
	*v = StepView{}
	r := reader{rest: b}
	for r.next() {
		switch field := uint32(r.key >> 3); {
		case r.is(1, wireVarint):
			v.Now = int64(r.num)
		case r.is(field, wireBytes) && field >= InputInit && field <= lastInput:
			v.Kind, v.body = field, r.data
		}
	}
	if r.bad {
		return ErrMalformed
	}
	inner := reader{rest: v.body}
	for inner.next() {
	}
	return inner.err()
}

// as returns the message of the input if it is of that kind, else an empty one.
func (v *StepView) as(kind uint32) reader {
	if v.Kind != kind {
		return reader{}
	}
	return reader{rest: v.body}
}

func appendFilter(b []byte, field byte, f *Filter) []byte {
	b, at := open(b, field)
	return seal(AppendFilter(b, f), at)
}

func appendFilters(b []byte, field byte, list []Filter) []byte {
	for i := range list {
		b = appendFilter(b, field, &list[i])
	}
	return b
}

// Age returns the age of the start at index i, newest first, in milliseconds, and
// whether there is one. It costs much less than to walk there.
func (v *SubjectView) Age(i int) (age uint32, ok bool) {
	if v.rare {
		for it := v.Ages(); it.Next(); i-- {
			if i == 0 {
				return it.Age(), true
			}
		}
		return 0, false
	}
	var n uint64
	var shift uint
	for _, c := range v.ages {
		if i == 0 && shift < 64 {
			n |= uint64(c&0x7f) << shift
		}
		if shift += 7; c >= 0x80 {
			continue
		}
		if i == 0 {
			return uint32(min(n, 1<<32-1)), true
		}
		i--
		shift = 0
	}
	return 0, false
}

// AdmitRequest is the message AdmitRequest as it is written, its Source
// included. T and K are the writer's types of a tag and of a public key.
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
	size := sizeUint(uint64(q.Origin)) + sizeNonEmpty(len(q.Address)) + sizeNonEmpty(len(q.Relay)) + len(q.Authed)*sizeBytes(32)
	b = appendVarint(appendKey(b, 2, wireBytes), uint64(size))
	b = appendUint(b, 1, uint64(q.Origin))
	b = appendNonEmpty(b, 2, q.Address)
	b = appendNonEmpty(b, 3, q.Relay)
	b = appendKeys(b, 4, q.Authed)
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
