package audience

import (
	"math/rand/v2"
	"testing"

	"talon/host"
)

// TestFilter adds half a million events, and asks for as many others.
func TestFilter(t *testing.T) {
	const n = 500_000
	f, random := newFilter(), rand.NewChaCha8([32]byte{})
	ids := make([]host.ID, 2*n)
	for i := range ids {
		_, _ = random.Read(ids[i][:])
	}
	for _, id := range ids[:n] {
		f.add(id)
	}
	through := 0
	for i, id := range ids {
		switch yes := f.mayHave(id); {
		case i < n && !yes:
			t.Fatal("an event that was added is not let through")
		case i >= n && yes:
			through++
		}
	}
	if share := float64(through) / n; share > 0.03 {
		t.Errorf("%.3f of the others are let through", share)
	}
}
