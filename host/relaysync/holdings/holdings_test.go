package holdings

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"testing"

	"talon/host"
)

func id(n uint32) (id host.ID) {
	binary.BigEndian.PutUint32(id[:], n*2654435761) // in no order
	return id
}

// A set holds what was added and not removed, in whatever order, after it was written and
// read too. A view stays as it was.
func TestSetAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const ids = 20_000
	s, want := New(ids), map[uint32]bool{}
	s.Keep()
	check := func(v View, want map[uint32]bool) {
		t.Helper()
		for n := range uint32(ids) {
			if v.Has(id(n)) != want[n] {
				t.Fatalf("event %d is there: %v", n, !want[n])
			}
		}
	}
	for round := range 20 {
		for range 3000 {
			if n := random.Uint32N(ids); random.IntN(3) > 0 {
				s.Add(id(n))
				want[n] = true
			} else {
				s.Remove(id(n))
				delete(want, n)
			}
		}
		if s.Len() != len(want) {
			t.Fatalf("%d events, want %d", s.Len(), len(want))
		}
		if round%5 == 0 {
			before, was := s.View(), map[uint32]bool{}
			for n := range want {
				was[n] = true
			}
			s.Remove(id(7))
			s.Add(id(8))
			delete(want, 7)
			want[8] = true
			check(s.View(), want)
			check(before, was)
			s = Decode(s.Encode(), ids)
		}
		check(s.View(), want)
	}
	if size := len(s.Encode()); size > 6*len(want)+5 {
		t.Errorf("%d bytes for %d events", size, len(want))
	}
	if s.Bytes() > 12*s.Len() {
		t.Errorf("%d bytes of memory for %d events", s.Bytes(), s.Len())
	}
}

// TestKeep checks that a set that no filter uses is dropped, with nothing to write.
func TestKeep(t *testing.T) {
	s := New(10)
	s.Add(id(1))
	f := &host.Filter{Kinds: []host.Kind{1}, Limit: -1}
	s.Compared(f)
	if s.Len() != 0 || s.Knows(f) || s.TakeChanged() || s.Kept() {
		t.Error("it is kept")
	}
	s.Keep()
	s.Add(id(1))
	if s.Len() != 1 || !s.TakeChanged() {
		t.Error("it is not kept")
	}
	s.Add(id(1))
	s.Remove(id(2))
	if s.TakeChanged() {
		t.Error("nothing has changed")
	}
	if s.Remove(id(1)); !s.TakeChanged() {
		t.Error("an event is gone")
	}
}

// A set that is full begins again: what it knew as compared as well, or an event that it
// forgot would count as gone from the relay's side.
func TestFull(t *testing.T) {
	s := New(100)
	s.Keep()
	f := &host.Filter{Kinds: []host.Kind{1}, Limit: -1}
	for n := range uint32(100) {
		s.Add(id(n))
	}
	s.Compared(f)
	for n := range uint32(50) { // no room is taken twice
		s.Remove(id(n))
		s.Add(id(n))
	}
	if s.Len() != 100 || !s.Knows(f) {
		t.Fatalf("%d events", s.Len())
	}
	s.Add(id(100))
	if s.Len() != 0 || s.Knows(f) || !s.TakeChanged() {
		t.Errorf("%d events, the filter is known: %v", s.Len(), s.Knows(f))
	}
	if s.Add(id(100)); s.Len() != 1 {
		t.Error("it takes no more")
	}
}

// A filter is known by its conditions, whatever their order and whatever the time.
func TestKnows(t *testing.T) {
	since := int64(5)
	tags := func(list ...host.TagFilter) []host.TagFilter { return list }
	f := host.Filter{Kinds: []host.Kind{1, 2}, Tags: tags(host.TagFilter{Name: 'e', Values: []string{"a", "b"}}, host.TagFilter{Name: 'a', Values: []string{"c"}}), Limit: -1}
	s := New(10)
	s.Keep()
	bounded := f
	bounded.Since = &since
	if s.Knows(&host.Filter{}) {
		t.Error("nothing was compared")
	}
	if s.Compared(&bounded); s.Knows(&f) {
		t.Error("a part of the past is not all of it")
	}
	s.Compared(&f)
	s = Decode(s.Encode(), 10)
	for name, c := range map[string]struct {
		filter host.Filter
		want   bool
	}{
		"itself":         {f, true},
		"since":          {bounded, true},
		"another order":  {host.Filter{Kinds: []host.Kind{2, 1}, Tags: tags(host.TagFilter{Name: 'a', Values: []string{"c"}}, host.TagFilter{Name: 'e', Values: []string{"b", "a"}})}, true},
		"fewer kinds":    {host.Filter{Kinds: []host.Kind{1}, Tags: f.Tags}, false},
		"any kind":       {host.Filter{Tags: f.Tags}, false},
		"no kind":        {host.Filter{Kinds: []host.Kind{}, Tags: f.Tags}, false},
		"another value":  {host.Filter{Kinds: f.Kinds, Tags: tags(host.TagFilter{Name: 'e', Values: []string{"ab"}}, f.Tags[1])}, false},
		"another letter": {host.Filter{Kinds: f.Kinds, Tags: tags(host.TagFilter{Name: 'E', Values: []string{"a", "b"}}, f.Tags[1])}, false},
		"an author":      {host.Filter{Kinds: f.Kinds, Tags: f.Tags, Authors: []host.PubKey{{1}}}, false},
		"all of a kind":  {host.Filter{Kinds: []host.Kind{7}}, false},
		"everything":     {host.Filter{}, true}, // any comparison will do
		"an id":          {host.Filter{Kinds: f.Kinds, Tags: f.Tags, IDs: []host.ID{{1}}}, false},
	} {
		if got := s.Knows(&c.filter); got != c.want {
			t.Errorf("%s: known %v", name, got)
		}
	}
	many := func(from, to int) *host.Filter {
		values := make([]string, 0, to-from)
		for n := from; n < to; n++ {
			values = append(values, strconv.Itoa(n))
		}
		return &host.Filter{Tags: tags(host.TagFilter{Name: 'e', Values: values}), Limit: -1}
	}
	s.Compared(many(0, 300))
	for _, c := range []struct {
		from, to int
		want     bool
	}{{0, 300, true}, {10, 20, true}, {200, 400, false}, {225, 325, true}, {300, 301, false}} {
		if got := s.Knows(many(c.from, c.to)); got != c.want {
			t.Errorf("values %d to %d: known %v", c.from, c.to, got)
		}
	}
	s.Compared(many(0, maxConditions))
	if s.Knows(&f) || !s.Knows(many(7, 8)) || len(s.compared) > maxConditions {
		t.Errorf("%d conditions are kept", len(s.compared))
	}
}

// FuzzDecode reads any bytes. The result must be a set that works, and a written set must come
// back.
func FuzzDecode(f *testing.F) {
	s := New(10)
	s.Keep()
	s.Add(id(1), id(2), id(3))
	s.Compared(&host.Filter{Kinds: []host.Kind{1}, Limit: -1})
	f.Add(s.Encode())
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4})
	f.Add([]byte{2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Decode(b, 10)
		if s.Len() > 10 {
			t.Fatalf("%d events", s.Len())
		}
		if s.Kept() && !bytes.Equal(s.Encode(), b) {
			t.Fatalf("%x became %x", b, s.Encode())
		}
		s.Keep()
		s.Add(id(9))
		if !s.View().Has(id(9)) {
			t.Error("it takes nothing")
		}
	})
}

// A set tells what the relay lacks, until the relay shows it. Only the relay's own events are written.
func TestLacked(t *testing.T) {
	s := New(3)
	s.Remove(id(1))
	if s.Lacked().Has(id(1)) {
		t.Error("it records events before anybody asks")
	}
	s.Keep()
	s.Add(id(1))
	s.Remove(id(1), id(2))
	if v := s.Lacked(); !v.Has(id(1)) || !v.Has(id(2)) || v.Has(id(3)) || s.View().Has(id(1)) {
		t.Error("events that the relay lacks are not recorded")
	}
	s.Add(id(2))
	if s.Lacked().Has(id(2)) {
		t.Error("an event that the relay has is lacking")
	}
	if again := Decode(s.Encode(), 3); again.Lacked().Has(id(1)) || !again.View().Has(id(2)) {
		t.Error("what the relay lacks is written")
	}
	s.Remove(id(4), id(5), id(6))
	if v := s.Lacked(); v.Has(id(1)) || v.Has(id(4)) || !s.View().Has(id(2)) {
		t.Error("a full set of these does not begin again empty")
	}
}
