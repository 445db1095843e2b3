package main

import "testing"

// TestHasAlone: a relay that others repeat may be spared. A relay that repeats what many others have says
// nothing about one of them, as long as most events come from one relay only.
func TestHasAlone(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		first, all, repeated int // events that it delivered first, that all did, and that others repeated
		want                 bool
	}{
		{"all relays have all events", 30, 90, 180, false},
		{"two of three relays have each event", 30, 90, 60, false},
		{"no other relay has its events", 30, 90, 0, true},
		{"one relay of nine repeats a third of the others' events", 20, 180, 60, true},
		{"one relay of three repeats those of both others", 30, 90, 60, false},
		{"it delivers first, and others repeat that", 60, 60, 59, true},
	} {
		s := &mirror{firsts: tt.all, repeated: tt.repeated}
		r := &relay{alone: alone{first: tt.first, since: 1}}
		r.alone.turn(s.firsts, s.repeated)
		if got := s.hasAlone(r); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
