package abi

import (
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
