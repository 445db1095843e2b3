package wave

import (
	"testing"
	"time"
)

func TestWave(t *testing.T) {
	var w Wave
	at := time.Unix(1_700_000_000, 0)
	if n := w.Count(at); n != 1 {
		t.Errorf("the first: %d", n)
	}
	for i := range 100 {
		if n := w.Count(at.Add(time.Duration(i) * 100 * time.Millisecond)); n != 0 {
			t.Errorf("after %d: %d", i, n)
		}
	}
	if n := w.Count(at.Add(time.Minute)); n != 101 {
		t.Errorf("a minute later: %d, want 101", n)
	}
}
