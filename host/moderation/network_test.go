package moderation

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"talon/host"
)

// scanned is Log.Address by a scan of all rules.
func scanned(l *Log, addr netip.Addr, now int64) (found *Row) {
	bits := -1
	addr = addr.Unmap().WithZone("")
	for _, t := range l.byTarget {
		p := t.target.prefix
		if r := t.row(Ban, now); r != nil && t.target.class == Network && p.Contains(addr) && p.Bits() > bits {
			found, bits = r, p.Bits()
		}
	}
	return found
}

// TestAddressLookup compares the lookup of an address with a scan, over rows that overlap, end and are
// lifted.
func TestAddressLookup(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{192, 0, byte(random.IntN(3)), byte(random.IntN(6))})
		}
		return netip.AddrFrom16([16]byte{0x20, 1, byte(random.IntN(3)), 15: byte(random.IntN(6))})
	}
	var l Log
	found := 0
	for number := int64(1); number <= 2000; number++ {
		a := address()
		p, err := a.Prefix(random.IntN(a.BitLen() + 1))
		if err != nil {
			t.Fatal(err)
		}
		r := Row{Number: number, At: number, Action: Ban, Target: NetworkTarget(p)}
		switch random.IntN(4) {
		case 0:
			r.Until = number + int64(random.IntN(50))
		case 1, 2:
			r.Action = Unban
		}
		l.Apply([]Row{r})
		for _, a := range []netip.Addr{address(), netip.AddrFrom16(netip.AddrFrom4([4]byte{192, 0, 1, 1}).As16()), {}} {
			got, want := l.Address(a, number), scanned(&l, a, number)
			if got != want {
				t.Fatalf("after row %d, %s is barred by %+v, want %+v", number, a, got, want)
			}
			if got != nil {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no address was barred")
	}
}

// BenchmarkAddress asks for an address that nobody has banned, among 10,000 banned networks: by the
// lookup, and by a scan.
func BenchmarkAddress(b *testing.B) {
	var l Log
	for i := range 10_000 {
		text := fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)
		if i%2 == 0 {
			text = fmt.Sprintf("2001:db8:%x::/48", i)
		}
		t, err := parseNetwork(text)
		if err != nil {
			b.Fatal(err)
		}
		l.Apply([]Row{{Number: int64(i + 1), Action: Ban, Target: t}})
	}
	addr := netip.MustParseAddr("192.0.2.1")
	b.Run("lookup", func(b *testing.B) {
		for b.Loop() {
			l.Address(addr, 1)
		}
	})
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			scanned(&l, addr, 1)
		}
	})
}

// TestAllowed finds what the operator allows, by the names that modules have for it.
func TestAllowed(t *testing.T) {
	var l Log
	id, author := host.ID{1}, host.PubKey{2}
	row := func(n int64, a Action, target Target, until int64) Row {
		return Row{Number: n, UID: "u", At: 10, Action: a, Target: target, Until: until}
	}
	l.Apply([]Row{
		row(1, Allow, EventTarget(id), 0), row(2, Allow, AuthorTarget(author), 50), row(3, Allow, KindTarget(30023), 0),
		row(4, Allow, NetworkTarget(netip.MustParsePrefix("192.0.2.0/24")), 0), row(5, Ban, AuthorTarget(host.PubKey{3}), 0),
		row(6, Allow, KindTarget(7), 0), row(7, Unallow, KindTarget(7), 0),
	})
	for member, want := range map[string]bool{
		string(id[:]): true, string(author[:]): true, string(make([]byte, 32)): false, "\x03" + string(make([]byte, 31)): false,
		"kind:30023": true, "kind:1": false, "kind:7": false, "kind:95559": false, "kind:": false,
		"192.0.2.7": true, "::ffff:192.0.2.7": true, "198.51.100.1": false, "": false, "x": false,
	} {
		if got := l.Allowed([]byte(member), 20); got != want {
			t.Errorf("%q: %v, want %v", member, got, want)
		}
	}
	if l.Allowed(author[:], 50) {
		t.Error("a row whose time is over still allows")
	}
}
