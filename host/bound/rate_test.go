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
	for i := range 3 * maxNetworks {
		b.Charge(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1)
	}
	if len(b.used) > maxNetworks {
		t.Errorf("%d networks are remembered", len(b.used))
	}
	if b.Wait(one) == 0 {
		t.Error("the network that has used most is forgotten")
	}
}

func newTestRate(hourly int64, now func() time.Time) *Rate {
	return NewRate(Spec{Name: "test", Unit: "pushes an hour", Network: hourly, Yields: "the next one waits"}, now)
}
