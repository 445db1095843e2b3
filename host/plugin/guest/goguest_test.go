package guest

import (
	"strings"
	"testing"

	"talon/host"
	"talon/internal/testkit"
)

// TestGuestThatCollectsGarbage runs a guest long enough for its garbage
// collector to run within decisions, on their fuel.
func TestGuestThatCollectsGarbage(t *testing.T) {
	m := loadGo(t, "host/plugin/guest/testdata/guests/garbage", func(o *Options) { o.Instances = 1 })
	it := item(1, strings.Repeat("Some Words ", 30))
	decisions := 20_000
	if testing.Short() || testkit.RaceDetector {
		decisions = 2_000
	}
	for i := range decisions {
		it.Event.PubKey[1] = byte(i)
		got := admit(t, m, it)
		if got.Action != host.Accept || got.Rule != "words-60" {
			t.Fatalf("decision %d: %+v, want accept by words-60", i, got)
		}
	}
}

// TestGuestThatSleeps: a guest's own clock moves on while it waits, and nobody else's.
func TestGuestThatSleeps(t *testing.T) {
	m := loadGo(t, "host/plugin/guest/testdata/guests/sleeps", func(o *Options) { o.Instances = 1 })
	for range 3 {
		if got := admit(t, m, item(1, "")); got.Action != host.Accept || got.Rule != "sleeps" {
			t.Fatalf("%+v, want accept", got)
		}
	}
}
