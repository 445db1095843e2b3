package abi

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"
)

// TestUsual: what hosts write is read without the reader of any message, and as that
// reads it. Lengths and kinds take one byte, two or three.
func TestUsual(t *testing.T) {
	lengths := []int{0, 1, 59, 60, 127, 128, 16_383, 16_384, 70_000}
	events := []Event[[]string]{*sampleEvent()}
	for i, n := range lengths {
		e := *sampleEvent()
		e.Kind = []uint32{0, 1, 127, 128, 16_383, 16_384, 65_535}[i%7]
		e.Content, e.Tags = strings.Repeat("c", n), nil
		events = append(events, e)
		for _, date := range []int64{0, 1, -1, 1<<28 - 1, 1 << 28, 1<<35 - 1, 1 << 35} {
			e.CreatedAt = date
			events = append(events, e)
		}
		for _, m := range lengths {
			e.Tags = [][]string{{"e", strings.Repeat("v", n)}, {}, {strings.Repeat("n", m)}}
			events = append(events, e)
		}
	}
	for i := range events {
		q := AdmitRequest[[]string, [32]byte]{Event: events[i], Origin: OriginClient, Address: []byte("192.0.2.7"), Authed: [][32]byte{key32(1)}, Now: 1_700_000_000 + int64(i)}
		encoded := AppendAdmitRequest(nil, &q)
		var usual, any AdmitRequestView
		if !usual.usual(encoded) {
			t.Fatalf("kind %d, %d bytes: it is read like any message", q.Event.Kind, len(encoded))
		}
		if err := any.decodeAny(encoded); err != nil || !reflect.DeepEqual(usual, any) {
			t.Fatalf("kind %d, %d bytes: %+v one way, %+v the other, %v", q.Event.Kind, len(encoded), usual, any, err)
		}
		var event EventView
		if event.usual(AppendEvent(nil, &q.Event)[1:]) {
			t.Fatal("a part of an event was read")
		}
	}
}

// checkUsual compares what is read of a message of the usual form with what is read of
// any.
func checkUsual(t *testing.T, b []byte) {
	t.Helper()
	var event, anyEvent EventView
	if event.usual(b) && (anyEvent.decodeAny(b) != nil || !reflect.DeepEqual(event, anyEvent)) {
		t.Errorf("%x: event %+v one way, %+v the other", b, event, anyEvent)
	}
	var request, anyRequest AdmitRequestView
	if request.usual(b) && (anyRequest.decodeAny(b) != nil || !reflect.DeepEqual(request, anyRequest)) {
		t.Errorf("%x: request %+v one way, %+v the other", b, request, anyRequest)
	}
}

// wellFormed says what encoding/binary makes of the outer fields.
func wellFormed(b []byte) bool {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 >= 1<<29 {
			return false
		}
		b = b[n:]
		size := uint64(0)
		switch tag & 7 {
		case wireVarint:
			if _, n = binary.Uvarint(b); n <= 0 {
				return false
			}
			size = uint64(n)
		case wireFixed64:
			size = 8
		case wireBytes:
			if size, n = binary.Uvarint(b); n <= 0 {
				return false
			}
			b = b[n:]
		case wireFixed32:
			size = 4
		default:
			return false
		}
		if size > uint64(len(b)) {
			return false
		}
		b = b[size:]
	}
	return true
}

func seed(f *testing.F) {
	f.Add(AppendEvent(nil, sampleEvent()))
	f.Add(AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{Event: *sampleEvent(), Authed: [][32]byte{key32(1)}}))
	f.Add(AppendAdmitRequest(nil, &AdmitRequest[[]string, [32]byte]{Event: *sampleEvent(), Origin: OriginClient, Now: 1_700_000_000}))
	f.Add(AppendVerdict(nil, ActionReject, "spam", "blocked", "no"))
	f.Add(AppendConfig(nil, &Config{Settings: []Setting{{Key: "i", Ints: []int64{1, -1}, Floats: []float64{1}, Bools: []bool{true}, Strings: []string{"x"}}}, Service: Service{Domain: "x", PRs: true, Operator: [32]byte{1}}}))
	f.Add(AppendFilter(nil, &Filter{IDs: [][32]byte{key32(1)}, Kinds: []uint32{1}, Tags: []TagFilter{{"t", []string{"x"}}}, Limit: 1}))
	f.Add(sampleQuery(nil))
	f.Add(samplePush(nil))
	f.Add(AppendConnectRequest(nil, &ConnectRequest[[32]byte]{Client: sampleClient(), Open: 300, FromAddress: 2, Now: 77}))
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
}

// checkTag compares what an iterator read together with the items one by one.
func checkTag(t *testing.T, it *TagIter) {
	t.Helper()
	tag, size := it.Tag(), 0
	for i := range tag.Len() {
		size += len(tag.Item(i))
	}
	if it.Name() != tag.Item(0) || it.Value() != tag.Item(1) || tag.Size() != size {
		t.Errorf("tag %x: name %q, value %q, %d bytes", tag, it.Name(), it.Value(), tag.Size())
	}
}

func FuzzViews(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var event EventView
		if ok := event.Decode(b) == nil; ok != wellFormed(b) {
			t.Errorf("%x: decoded %v, well-formed %v", b, ok, !ok)
		}
		var any EventView
		if errAny := any.decodeAny(b); (errAny == nil) != wellFormed(b) || errAny == nil && !reflect.DeepEqual(any, event) {
			t.Errorf("%x: %+v one way, %+v the other", b, event, any)
		}
		for it := event.Tags(); it.Next(); {
			tag := it.Tag()
			if tag.Item(tag.Len()) != "" || tag.Size() > len(b) {
				t.Errorf("%x: a tag reaches outside", b)
			}
			checkTag(t, &it)
		}
		checkUsual(t, b)
		var request AdmitRequestView
		if request.Decode(b) == nil {
			request.Source.Origin()
			for i := 0; request.Source.Authed(i) != nil; i++ {
				if i > len(b) {
					t.Fatal("endless keys")
				}
			}
		}
		n := 0
		for list := ReadEventList(b); list.Next(&event); n++ {
			if n > len(b) {
				t.Fatal("endless events")
			}
		}
	})
}

func FuzzRequests(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		steps := 0
		walk := func(it BytesIter) {
			for it.Next() {
				if steps++; steps > 20*len(b) {
					t.Fatalf("%x: endless values", b)
				}
			}
		}
		var query QueryRequestView
		var connect ConnectRequestView
		var push PushRequestView
		decoded := [3]bool{query.Decode(b) == nil, connect.Decode(b) == nil, push.Decode(b) == nil}
		if want := wellFormed(b); decoded != [3]bool{want, want, want} {
			t.Errorf("%x: decoded %v, well-formed %v", b, decoded, want)
		}
		for _, client := range []ClientView{query.Client, connect.Client, push.Client} {
			client.Address()
			client.Path()
			walk(client.Authed())
		}
		walk(push.Maintainers())
		for it := push.Updates(); it.Next(); {
			if u := it.Update(); len(u.Ref)+len(u.Old)+len(u.New) > len(b) {
				t.Errorf("%x: an update reaches outside", b)
			}
		}
		for it := query.Filters(); it.Next(); {
			f := it.Filter()
			kinds := 0
			for it := f.Kinds(); it.Next(); kinds++ {
			}
			if kinds > f.NumKinds() {
				t.Errorf("%x: %d kinds, %d were counted", b, kinds, f.NumKinds())
			}
			walk(f.IDs())
			walk(f.Authors())
			for it := f.Tags(); it.Next(); {
				it.Name()
				walk(it.Values())
			}
		}
	})
}

func FuzzDecoders(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		var verdict VerdictView
		if verdict.Decode(b) == nil && !wellFormed(b) {
			t.Errorf("%x is accepted as a verdict", b)
		}
		if c, err := DecodeConfig(b); err == nil {
			if _, err := DecodeConfig(AppendConfig(nil, &c)); err != nil {
				t.Errorf("%x: what was read cannot be read again: %v", b, err)
			}
		}
		if filter, err := DecodeFilter(b, 20); err == nil {
			if n := len(filter.IDs) + len(filter.Authors) + len(filter.Kinds) + len(filter.Tags); n > 20 {
				t.Errorf("%x: %d values", b, n)
			}
			if _, err := DecodeFilter(AppendFilter(nil, &filter), 20); err != nil {
				t.Errorf("%x: what was read cannot be read again: %v", b, err)
			}
		}
		DecodeConfigured(b)
	})
}
