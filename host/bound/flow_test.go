package bound

import (
	"net/netip"
	"testing"
	"time"
)

// TestFlow shows how long a network waits that takes more than its share of a second.
func TestFlow(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	f := NewFlow(Spec{Name: "test", Unit: "bytes a second", Network: 100, Yields: "the network waits"}, 2*time.Second, func() time.Time { return now })
	take := func(addr string, amount int64, want time.Duration) {
		t.Helper()
		if got := f.Take(netip.MustParseAddr(addr), amount).Round(time.Millisecond); got != want {
			t.Errorf("%s takes %d and waits %v, want %v", addr, amount, got, want)
		}
	}
	take("192.0.2.1", 150, 0)
	take("192.0.2.2", 150, time.Second) // a neighbour
	take("198.51.100.1", 200, 0)
	take("127.0.0.1", 1e9, 0)
	now = now.Add(time.Second)
	take("192.0.2.1", 1, 10*time.Millisecond)
	now = now.Add(time.Minute)
	take("192.0.2.1", 200, 0)
	for i := range 3 * maxHolders {
		f.Take(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1)
	}
	if n := len(f.taken); n > maxHolders+2 {
		t.Errorf("%d networks are known, want at most %d", n, maxHolders)
	}
	take("192.0.2.1", 1000, 8*time.Second) // it owed no more than a burst
}
