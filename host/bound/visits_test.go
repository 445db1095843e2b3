package bound

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// TestVisitsOfNamers shows three things. Each network and author has at most its part of the
// visits. Events without a network do not use up the total. A newcomer has visits all the same.
func TestVisitsOfNamers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	v := NewVisits("relays", func() time.Time { return now })
	spend := func(by func(i int) Namer) (n int) {
		for i := range visitsTotal {
			if v.Reserve(by(i)) == 0 {
				n++
			}
		}
		return n
	}
	network := func(i int) Namer {
		return Namer{Addr: netip.AddrFrom4([4]byte{198, 18, 0, byte(i)}), Author: fmt.Sprint("author ", i)}
	}
	if n := spend(network); n != visitsNetwork {
		t.Errorf("a /24 with any number of authors has %d visits, want %d", n, visitsNetwork)
	}
	author := func(i int) Namer { return Namer{Addr: netip.AddrFrom4([4]byte{198, 19, byte(i), 1}), Author: "one"} }
	if n := spend(author); n != visitsAuthor {
		t.Errorf("an author in any number of networks has %d visits, want %d", n, visitsAuthor)
	}
	if n := spend(func(i int) Namer { return Namer{Author: fmt.Sprint("synced ", i)} }); n != visitsUnnamed {
		t.Errorf("events without a network have %d visits, want %d", n, visitsUnnamed)
	}
	for i := range 200 { // strangers of many networks take all that is left to them
		spend(func(int) Namer {
			return Namer{Addr: netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), Author: fmt.Sprint("many ", i)}
		})
	}
	if n := spend(func(int) Namer { return Namer{Author: "known", Known: true} }); n != int(Share(KnownPart(visitsTotal))) {
		t.Errorf("somebody known has %d visits when strangers took theirs, want %d", n, Share(KnownPart(visitsTotal)))
	}
	now = now.Add(time.Hour / 10)
	spend(network)
	newcomer := Namer{Addr: netip.MustParseAddr("203.0.113.9"), Author: "new"}
	if left := v.Left(newcomer); left != visitsNetwork {
		t.Errorf("a newcomer has %d visits left, want %d", left, visitsNetwork)
	}
	if wait := v.Wait(network(0)); wait <= 0 || wait > time.Hour/visitsNetwork {
		t.Errorf("a network without visits waits %v for the next, want up to %v", wait, time.Hour/visitsNetwork)
	}
	now = now.Add(time.Hour / visitsNetwork)
	if wait := v.Reserve(network(0)); wait != 0 {
		t.Errorf("the network still waits %v", wait)
	}
}

// TestVisitsOfAddresses shows that an address and a neighbourhood get one part each, whatever
// names lead there.
func TestVisitsOfAddresses(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	v := NewVisits("git servers", func() time.Time { return now })
	count := func(addr func(i int) string) (n int) {
		for i := range 200 {
			if v.ReserveAddress(netip.MustParseAddr(addr(i))) == 0 {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		name string
		addr func(i int) string
		want int
	}{
		{"an address", func(int) string { return "192.0.2.1" }, visitsAddress},
		{"its neighbourhood", func(i int) string { return fmt.Sprintf("192.0.2.%d", i) }, 0},
		{"a /24", func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, visitsAddress},
		{"a /48 of IPv6", func(i int) string { return fmt.Sprintf("2001:db8:0:%x::1", i) }, visitsAddress},
		{"loopback", func(int) string { return "127.0.0.1" }, 200},
	} {
		if n := count(c.addr); n != c.want {
			t.Errorf("%s gets %d connections, want %d", c.name, n, c.want)
		}
	}
}
