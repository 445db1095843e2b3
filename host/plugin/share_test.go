package plugin

import (
	"testing"
	"time"
)

// TestShare has a plugin that would take the whole of a processor: over ten minutes it
// gets a fifth, and is warned about once a minute. One that takes a tenth never waits.
func TestShare(t *testing.T) {
	for _, test := range []struct {
		idle        time.Duration // between two steps of 100 ms
		least, most time.Duration // that it gets in ten minutes
		warnings    int
	}{
		{0, 2 * time.Minute, 2*time.Minute + reducerBurst + time.Second, 10},
		{900 * time.Millisecond, 59 * time.Second, 61 * time.Second, 0},
	} {
		begun := time.Unix(now, 0)
		at, s := begun, newShare(begun)
		var got time.Duration
		warnings := 0
		for at.Sub(begun) < 10*time.Minute {
			if wait := s.wait(at); wait > 0 {
				if s.warn(at) {
					warnings++
				}
				at = at.Add(wait)
				s.wait(at)
			}
			const step = 100 * time.Millisecond
			s.spend(step)
			got += step
			at = at.Add(step + test.idle)
		}
		if got < test.least || got > test.most || warnings != test.warnings {
			t.Errorf("it got %v of ten minutes, with %d warnings; want %v to %v and %d", got, warnings, test.least, test.most, test.warnings)
		}
	}
}
