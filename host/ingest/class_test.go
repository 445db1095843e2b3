package ingest

import (
	"net/netip"
	"testing"
	"time"

	"talon/host"
	"talon/host/bound"
)

// sender is a client of which an event always waits.
type sender struct {
	source *host.Source
	by     bound.Holder
}

func stranger(n int) sender {
	addr := netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 1})
	return sender{&host.Source{Addr: addr}, bound.Holder{Addr: addr}}
}

func knownPerson(n int) sender {
	s := stranger(n)
	s.source.Addr = netip.AddrFrom4([4]byte{11, byte(n >> 8), byte(n), 1})
	s.by = bound.Holder{Addr: s.source.Addr, Known: true}
	return s
}

// flood has each sender send without a pause, and returns how many of a number of decisions each
// got.
func flood(s *schedule, senders []sender, decisions int) map[*host.Source]int {
	holders := make(map[*host.Source]bound.Holder)
	send := func(source *host.Source) {
		s.add(source, holders[source], &entry{item: &host.Item{Source: source}})
	}
	for _, from := range senders {
		holders[from.source] = from.by
		send(from.source)
	}
	got := make(map[*host.Source]int)
	for range decisions {
		e := s.dequeue()
		got[e.item.Source]++
		s.done(e, time.Millisecond)
		ready := s.appendReady(nil)
		s.order(ready)
		for _, e := range ready {
			for ; e != nil; e = s.pop(e, time.Millisecond) {
				send(e.lane.source)
			}
		}
	}
	return got
}

// TestKnownClass has strangers from many networks send without a pause. Known people get half of the
// time together, however many strangers there are, and their fair part if they are more.
func TestKnownClass(t *testing.T) {
	for _, test := range []struct {
		strangers, known int
		wantKnown        int // of 1,000 decisions
	}{
		{500, 1, 500},
		{500, 4, 500},
		{1, 1, 500},
		{1, 9, 900},
		{0, 2, 1000},
	} {
		s := newSchedule(1, newMetrics())
		var senders []sender
		for n := range test.strangers {
			senders = append(senders, stranger(n))
		}
		for n := range test.known {
			senders = append(senders, knownPerson(n))
		}
		got := flood(s, senders, 1000)
		known := 0
		for _, from := range senders[test.strangers:] {
			known += got[from.source]
			if n, want := got[from.source], test.wantKnown/test.known; n < want*9/10 || n > want*11/10 {
				t.Errorf("%d strangers, %d known: one of the known got %d decisions of 1,000, want %d", test.strangers, test.known, n, want)
			}
		}
		if known < test.wantKnown*95/100 || known > test.wantKnown*105/100 {
			t.Errorf("%d strangers, %d known: the known got %d decisions of 1,000, want %d", test.strangers, test.known, known, test.wantKnown)
		}
	}
}

// TestKnownNow: a client of which nothing waits goes to the class of known people once it has proven
// a key. The lanes of one key count together, from however many networks they come.
func TestKnownNow(t *testing.T) {
	s := newSchedule(1, newMetrics())
	var senders []sender
	for n := range 40 {
		senders = append(senders, stranger(n))
	}
	flood(s, senders, 100)
	for s.depth() > 0 { // until nothing waits
		e := s.dequeue()
		s.done(e, time.Millisecond)
		for _, e := range s.appendReady(nil) {
			for ; e != nil; e = s.pop(e, 0) {
			}
		}
	}
	for n := range 20 { // twenty connections of one person
		senders[n].by.Known, senders[n].by.Key = true, host.PubKey{1}
	}
	other := knownPerson(1)
	got := flood(s, append(senders, other), 1000)
	mine := 0
	for _, from := range senders[:20] {
		mine += got[from.source]
	}
	// Two of the known people and twenty networks of strangers share: a half for each class.
	if mine < 225 || mine > 275 || got[other.source] < 225 || got[other.source] > 275 {
		t.Errorf("twenty connections of one key got %d decisions of 1,000, and another known person %d; want 250 each", mine, got[other.source])
	}
	if s.known.busy != 2 || s.others.busy != 20 {
		t.Errorf("%d and %d have work, want 2 and 20", s.known.busy, s.others.busy)
	}
}

// TestKnownSlow has strangers from many networks send events with slow decisions. A part of what may
// be under way is left for known people.
func TestKnownSlow(t *testing.T) {
	s := newSchedule(1000, newMetrics())
	s.spawn = func() {}
	begin := func() (list []*entry) {
		for e := s.dequeue(); e != nil; e = s.dequeue() {
			list = append(list, e)
		}
		return list
	}
	var senders []sender
	for n := range 50 {
		senders = append(senders, stranger(n))
	}
	for n := range maxSlowKnown {
		senders = append(senders, knownPerson(n))
	}
	send := func(list []sender) {
		for _, from := range list {
			s.add(from.source, from.by, &entry{item: &host.Item{Source: from.source}})
		}
	}
	send(senders)
	for _, e := range begin() {
		e.waited = "hangs"
		s.done(e, time.Second)
	}
	for _, e := range s.appendReady(nil) {
		for ; e != nil; e = s.pop(e, 0) {
		}
	}
	send(senders[:50])
	if n := len(begin()); n != maxSlow-maxSlowKnown {
		t.Errorf("%d slow decisions of strangers are under way, want %d", n, maxSlow-maxSlowKnown)
	}
	send(senders[50:])
	if n := len(begin()); n != maxSlowKnown {
		t.Errorf("%d slow decisions of known people begin, want %d", n, maxSlowKnown)
	}
}
