package bound

import (
	"net/netip"
	"testing"
	"time"
)

// TestRate shows what clients of one network use in an hour, and when they may go on.
func TestRate(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := newTestRate(60, func() time.Time { return now })
	one, neighbour, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.1")
	wait := func(addr netip.Addr, want time.Duration) {
		t.Helper()
		if got := b.Wait(addr); got.Round(time.Second) != want {
			t.Errorf("%s waits %v, want %v", addr, got, want)
		}
	}
	wait(one, 0)
	b.Charge(one, 59)
	wait(one, 0)
	b.Charge(one, 61) // what began while something was left
	wait(one, 66*time.Minute)
	wait(neighbour, 66*time.Minute)
	wait(other, 0)
	now = now.Add(65 * time.Minute)
	wait(one, 0)
	b.Charge(one, 5)
	wait(one, 6*time.Minute)
	now = now.Add(-24 * time.Hour) // a clock that goes back gives nothing, and takes nothing
	wait(one, 6*time.Minute)

	for _, addr := range []netip.Addr{{}, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")} {
		b.Charge(addr, 1e9)
		wait(addr, 0)
	}
	none := newTestRate(0, time.Now)
	none.Charge(one, 1e9)
	if none.Wait(one) != 0 {
		t.Error("a rate without a limit has one")
	}
	b.Charge(one, 1000)
	for i := range 3 * maxHolders {
		b.Charge(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1)
	}
	if len(b.networks.used) > maxHolders {
		t.Errorf("%d networks are remembered", len(b.networks.used))
	}
	if b.Wait(one) == 0 {
		t.Error("the network that has used most is forgotten")
	}
}

func newTestRate(hourly int64, now func() time.Time) *Rate {
	return NewRate(Spec{Name: "test", Unit: "pushes an hour", Network: hourly, Yields: "the next one waits"}, now)
}

// TestKeyRate shows that each key has a share of its own, and that the empty one has none.
func TestKeyRate(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	spec := Spec{Name: "test", Unit: "bytes an hour", Key: 60, Yields: "the key that is over its share waits"}
	r := NewKeyRate(spec, func() time.Time { return now })
	if wait := r.Reserve("alice", 50); wait != 0 {
		t.Errorf("alice waits %v", wait)
	}
	if wait := r.Reserve("alice", 20); wait != 10*time.Minute {
		t.Errorf("alice waits %v for more than is left, want 10 minutes", wait)
	}
	if a, b := r.Left("alice"), r.Left("bob"); a != 10 || b != 60 {
		t.Errorf("%d and %d are left, want 10 and 60", a, b)
	}
	now = now.Add(10 * time.Minute)
	if left := r.Left("alice"); left != 20 {
		t.Errorf("%d is left after ten minutes, want 20", left)
	}
	if r.Charge("alice", 100); r.Wait("alice") != 86*time.Minute || r.Wait("bob") != 0 {
		t.Errorf("alice waits %v, and bob %v", r.Wait("alice"), r.Wait("bob"))
	}
	if wait := r.Reserve("", 1e9); wait != 0 {
		t.Errorf("the empty key waits %v", wait)
	}
}
