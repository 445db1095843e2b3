package purgatory

import (
	"slices"
	"testing"
)

const since = 1_700_000_000

// At 30 minutes the repository goes, the announcement stays 24 hours, and is not
// taken from sync again for 7 days.
func TestPhases(t *testing.T) {
	for _, test := range []struct {
		age          int64
		announcement Phase
		other        Phase
	}{
		{-3600, Waiting, Waiting}, {0, Waiting, Waiting}, {30*60 - 1, Waiting, Waiting}, {30 * 60, Dormant, Forgotten},
		{30*60 + 24*3600 - 1, Dormant, Forgotten}, {30*60 + 24*3600, Gone, Forgotten},
		{30*60 + 8*24*3600 - 1, Gone, Forgotten}, {30*60 + 8*24*3600, Forgotten, Forgotten},
	} {
		now := since + test.age
		if got := (Term{true, since}).Phase(now); got != test.announcement {
			t.Errorf("an announcement after %d s is %v, want %v", test.age, got, test.announcement)
		}
		if got := (Term{false, since}).Phase(now); got != test.other {
			t.Errorf("a state after %d s is %v, want %v", test.age, got, test.other)
		}
	}
}

// Next is the very second in which the phase changes.
func TestNext(t *testing.T) {
	for _, h := range []Term{{true, since}, {false, since}} {
		var phases []Phase
		now := int64(since)
		for {
			phases = append(phases, h.Phase(now))
			at, ok := h.Next(now)
			if !ok {
				break
			}
			if h.Phase(at) == h.Phase(now) || h.Phase(at-1) != h.Phase(now) {
				t.Fatalf("%+v: the phase %v does not end at %d", h, h.Phase(now), at)
			}
			now = at
		}
		want := []Phase{Waiting, Dormant, Gone, Forgotten}
		if !h.Announcement {
			want = []Phase{Waiting, Forgotten}
		}
		if !slices.Equal(phases, want) {
			t.Errorf("%+v goes through %v", h, phases)
		}
	}
}

// A state event, an authorised push or a replacement restarts the 30 minutes.
func TestRestart(t *testing.T) {
	h := Term{true, since}
	for age, want := range map[int64]bool{10: true, HoldFor: true, HoldFor + ReviveFor - 1: true, HoldFor + ReviveFor: false} {
		got, ok := h.Restart(since + age)
		if ok != want || ok && (got.Since != since+age || got.Phase(since+age+HoldFor-1) != Waiting) || !ok && got != h {
			t.Errorf("after %d s: %+v, %v", age, got, ok)
		}
	}
	if got, ok := h.Restart(since - 100); !ok || got != h {
		t.Errorf("a clock that went back shortens the time: %+v, %v", got, ok)
	}
	if _, ok := (Term{false, since}).Restart(since); ok {
		t.Error("a state restarts itself")
	}
}
