package abi

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

// Origin is one of OriginClient, OriginImport and OriginSync.
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
