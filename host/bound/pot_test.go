package bound

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"talon/host"
)

func newTestPot(total, known int64) *Pot {
	return NewPot(Spec{Name: "test", Unit: "holds", Total: total, Known: known, Yields: "the idlest of the heaviest network"})
}

// TestPotShares shows what one network, one neighbourhood and strangers together may hold.
func TestPotShares(t *testing.T) {
	p := newTestPot(64, 16) // 8 a network
	acquire := func(addr string, known bool) error {
		_, err := p.Acquire(Holder{Addr: netip.MustParseAddr(addr), Known: known}, 1, nil)
		return err
	}
	for i := range 8 {
		if err := acquire(fmt.Sprintf("10.0.0.%d", i%2+1), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := acquire("10.0.0.3", false); !errors.Is(err, ErrShare) {
		t.Errorf("a third address of a /24 that holds its share gets %v, want ErrShare", err)
	}
	for n := range 5 {
		for range 8 {
			if err := acquire(fmt.Sprintf("10.0.%d.1", n+1), false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := acquire("10.0.9.1", false); !errors.Is(err, ErrFull) {
		t.Errorf("a stranger gets %v from the part for known people, want ErrFull", err)
	}
	for i := range 16 {
		if err := acquire(fmt.Sprintf("10.9.%d.1", i/2), true); err != nil {
			t.Fatalf("somebody known gets %v after %d holds", err, i)
		}
	}
	if err := acquire("10.9.20.1", true); !errors.Is(err, ErrFull) {
		t.Errorf("somebody known gets %v of a full pot, want ErrFull", err)
	}
	if err := acquire("::1", false); !errors.Is(err, ErrFull) {
		t.Errorf("loopback gets %v of a full pot, want ErrFull", err)
	}
}

// TestPotEvicts shows that the idlest hold of the heaviest network gives way.
func TestPotEvicts(t *testing.T) {
	p := newTestPot(16, 0) // 2 a network
	var evicted []string
	hold := func(addr, name string) (*Hold, error) {
		return p.Acquire(Holder{Addr: netip.MustParseAddr(addr)}, 1, func() { evicted = append(evicted, name) })
	}
	var first *Hold
	for n := range 8 {
		for i := range 2 {
			h, err := hold(fmt.Sprintf("10.0.%d.1", n), fmt.Sprintf("%d-%d", n, i))
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 && i == 0 {
				first = h
			}
		}
	}
	first.Touch()
	if _, err := hold("10.1.0.1", "new"); err != nil {
		t.Fatal(err)
	}
	if len(evicted) != 1 || evicted[0] == "0-0" {
		t.Errorf("%v gave way, want one that is not active", evicted)
	}
	// A second one of the same network would make it as heavy as the others.
	if _, err := hold("10.1.0.1", "new"); !errors.Is(err, ErrFull) {
		t.Errorf("the second hold of a network gets %v, want ErrFull", err)
	}
	first.Release()
	first.Release()
	if used := p.Used(); used != 15 {
		t.Errorf("%d are held, want 15", used)
	}
}

// TestPotDisplaces shows that a newcomer always gets a hold where the idlest can give way:
// first that of its own network, then that of the heaviest.
func TestPotDisplaces(t *testing.T) {
	p := newTestPot(16, 0) // 2 a network
	var evicted []string
	displace := func(addr, name string) *Hold {
		t.Helper()
		h, err := p.Displace(Holder{Addr: netip.MustParseAddr(addr)}, 1, func() { evicted = append(evicted, name) })
		if err != nil {
			t.Fatal(name, err)
		}
		return h
	}
	gaveWay := func(want string) {
		t.Helper()
		if got := fmt.Sprint(evicted); got != want {
			t.Errorf("%s gave way, want %s", got, want)
		}
		evicted = nil
	}
	displace("10.0.0.1", "a")
	displace("10.0.0.2", "b")
	displace("10.0.0.2", "c") // the neighbourhood holds its share
	gaveWay("[a]")
	for n := 1; n < 8; n++ {
		displace(fmt.Sprintf("10.0.%d.1", n), fmt.Sprintf("%d-0", n))
		displace(fmt.Sprintf("10.0.%d.1", n), fmt.Sprintf("%d-1", n))
	}
	gaveWay("[]")
	displace("10.1.0.1", "d") // all are equally heavy: the idlest of the heaviest network
	gaveWay("[b]")
	displace("10.1.0.2", "e")
	gaveWay("[1-0]")
	kept := displace("10.1.0.1", "f")
	gaveWay("[d]")
	if !kept.Keep() {
		t.Error("a hold that nobody took cannot be kept")
	}
	displace("10.1.0.1", "g")
	gaveWay("[e]")
	if _, err := p.Displace(Holder{Addr: netip.MustParseAddr("10.1.0.1")}, 2, nil); !errors.Is(err, ErrShare) {
		t.Errorf("a network of which one hold is kept gets %v for all of its share, want ErrShare", err)
	}
	gaveWay("[g]")
	if used := p.Used(); used != 15 {
		t.Errorf("%d are held, want 15", used)
	}
}

// TestGrowAndDisplace shows that a hold that grows pushes out others, whole, and never itself.
func TestGrowAndDisplace(t *testing.T) {
	p := newTestPot(64, 0) // 8 a network
	var evicted []string
	displace := func(addr string) *Hold {
		t.Helper()
		h, err := p.Displace(Holder{Addr: netip.MustParseAddr(addr)}, 4, func() { evicted = append(evicted, addr) })
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	grower := displace("10.0.0.1")
	displace("10.0.0.2")
	if err := grower.GrowAndDisplace(2); err != nil || fmt.Sprint(evicted) != "[10.0.0.2]" {
		t.Errorf("%v, and %v gave way; want the other of its neighbourhood", err, evicted)
	}
	if err := grower.GrowAndDisplace(4); !errors.Is(err, ErrShare) {
		t.Errorf("a hold of more than the share: %v", err)
	}
	if used := p.Used(); used != 6 {
		t.Errorf("%d are held, want 6", used)
	}
}

// A client that proves the key of a known person moves to their part, and gives way no more.
// When it needs more than that part gives it, it is a stranger again.
func TestRecognise(t *testing.T) {
	p := newTestPot(32, 16)
	evicted := 0
	addr := netip.MustParseAddr("10.0.0.1")
	h, err := p.Acquire(Holder{Addr: addr}, 1, func() { evicted++ })
	if err != nil {
		t.Fatal(err)
	}
	me := Holder{Addr: addr, Known: true, Key: host.PubKey{1}}
	h.Recognise(Holder{Addr: addr})
	if h.known {
		t.Error("a stranger is known")
	}
	h.Recognise(me)
	if !h.known || p.strangers != 0 || p.keys[me.Key] != 1 {
		t.Errorf("known: %v, %d held by strangers, %d by the key", h.known, p.strangers, p.keys[me.Key])
	}
	if err := h.Grow(1); err != nil || !h.known {
		t.Errorf("the second of two: %v, known: %v", err, h.known)
	}
	if err := h.Grow(1); err != nil || h.known || p.strangers != 3 || len(p.keys) != 0 {
		t.Errorf("the third of two: %v, known: %v, %d held by strangers", err, h.known, p.strangers)
	}
	other, err := p.Acquire(me, 2, nil)
	if err != nil || !other.known {
		t.Errorf("the part is free again: %v", err)
	}
	h.Release()
	other.Release()
	if p.Used() != 0 || evicted != 0 {
		t.Errorf("%d are held, %d gave way", p.Used(), evicted)
	}
}

// TestPotWithoutNetwork shows that holders without a network are one network when the pot is
// full: they displace the idlest of their own, and strangers with a network displace them.
func TestPotWithoutNetwork(t *testing.T) {
	p := NewPot(Spec{Name: "test", Unit: "holds", Total: 8, Yields: "the idlest of the heaviest network", AnonymousYield: true})
	var evicted []int
	var holds []*Hold
	take := func(addr string) {
		t.Helper()
		var by Holder
		if addr != "" {
			by.Addr = netip.MustParseAddr(addr)
		}
		n := len(holds)
		h, err := p.Acquire(by, 1, func() { evicted = append(evicted, n) })
		if err != nil {
			t.Fatalf("holder %d from %q gets %v", n, addr, err)
		}
		holds = append(holds, h)
	}
	for range 8 {
		take("")
	}
	holds[0].Touch()
	if err := holds[1].Grow(-1); err != nil { // it gives nothing when it goes
		t.Fatal(err)
	}
	take("10.0.0.1")
	take("10.0.1.1")
	take("::1")
	if err := holds[1].Grow(1); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(evicted); got != "[2 3 4]" {
		t.Errorf("%s gave way, want 2, 3 and 4", got)
	}
	if used := p.Used(); used != 8 {
		t.Errorf("%d are held, want 8", used)
	}
}

// FuzzPot compares a pot with one that adds up all that is held.
func FuzzPot(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 200, 201, 33, 34, 255})
	f.Add([]byte("strangers fill it, known people come, strangers leave"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		const total, known = 24, 8
		p := newTestPot(total, known)
		type held struct {
			h       *Hold
			addr    netip.Addr
			evicted bool
		}
		var all []*held
		for i := 0; i+1 < len(ops); i += 2 {
			op, arg := ops[i], ops[i+1]
			addr := netip.AddrFrom4([4]byte{10, 0, arg & 3, arg >> 2 & 3})
			if arg >= 240 {
				addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			}
			switch {
			case op < 128 || len(all) == 0:
				it := &held{addr: addr}
				take := p.Acquire
				if op&4 > 0 {
					take = p.Displace
				}
				h, err := take(Holder{Addr: addr, Known: op&1 > 0, Key: host.PubKey{op & 9}}, int64(op&2)+1, func() { it.evicted = true })
				if err == nil {
					it.h = h
					all = append(all, it)
				}
			case op < 140:
				all[int(arg)%len(all)].h.Recognise(Holder{Known: op&1 > 0, Key: host.PubKey{op & 2}})
			case op < 150:
				all[int(arg)%len(all)].h.Touch()
			case op < 160:
				it := all[int(arg)%len(all)]
				if it.h.Keep() == it.evicted {
					t.Fatal("Keep does not know whether the hold gave way")
				}
			case op < 192:
				h := all[int(arg)%len(all)].h
				switch {
				case op&2 > 0:
					_ = h.GrowAndDisplace(int64(op&4) + 1)
				case op&1 > 0 || h.amount > 0:
					_ = h.Grow(int64(op&1)*2 - 1)
				}
			default:
				n := int(arg) % len(all)
				all[n].h.Release()
				all[n].h.Release()
				all = append(all[:n], all[n+1:]...)
			}
			var used, strangers int64
			by, knownBy, keys := map[netip.Prefix]int64{}, map[netip.Prefix]int64{}, map[host.PubKey]int64{}
			for _, it := range all {
				if it.evicted {
					continue
				}
				used += it.h.amount
				_, wide := Networks(it.addr)
				if it.h.known {
					knownBy[wide] += it.h.amount
					keys[it.h.key] += it.h.amount
					continue
				}
				strangers += it.h.amount
				by[wide] += it.h.amount
			}
			delete(by, netip.Prefix{})
			delete(knownBy, netip.Prefix{})
			delete(keys, host.PubKey{})
			for key, n := range keys {
				if n > Share(known) {
					t.Fatalf("the known key %v holds %d, may hold %d", key, n, Share(known))
				}
			}
			for prefix, n := range knownBy {
				if n > Share(known) {
					t.Fatalf("known people of %v hold %d, may hold %d", prefix, n, Share(known))
				}
			}
			if used != p.Used() || used > total || strangers > total-known {
				t.Fatalf("%d are held, %d by strangers; the pot counts %d of %d", used, strangers, p.Used(), total)
			}
			for prefix, n := range by {
				if n > Share(total) {
					t.Fatalf("%v holds %d, may hold %d", prefix, n, Share(total))
				}
			}
		}
		for _, it := range all {
			it.h.Release()
		}
		if len(p.narrow)+len(p.wide)+len(p.keys) > 0 || p.Used() != 0 {
			t.Fatalf("%d networks and keys are counted, and %d held, when all is released", len(p.narrow)+len(p.wide)+len(p.keys), p.Used())
		}
	})
}

// TestPotAnonymous shows that holders without a network give way to nobody in other pots.
func TestPotAnonymous(t *testing.T) {
	p := newTestPot(8, 0)
	for range 8 {
		if _, err := p.Acquire(Holder{}, 1, func() { t.Error("a holder without a network gives way") }); err != nil {
			t.Fatal(err)
		}
	}
	for _, by := range []Holder{{}, {Addr: netip.MustParseAddr("10.0.0.1")}} {
		if _, err := p.Acquire(by, 1, func() {}); !errors.Is(err, ErrFull) {
			t.Errorf("%v: got %v, want %v", by, err, ErrFull)
		}
	}
}

// TestDivisor has bounds divided, as a small attack needs: shares follow, and little is left as it is.
func TestDivisor(t *testing.T) {
	defer func(before string) { divisor = before }(divisor)
	divisor = "50"
	for _, tt := range []struct{ total, known, network, wantTotal, wantKnown, wantNetwork int64 }{
		{10_000, 1250, 0, 200, 25, 25},
		{256, 32, 0, 16, 0, 2},
		{8, 0, 0, 8, 0, 1},
		{20_000, 5000, 2500, 400, 100, 50},
	} {
		got := NewPot(Spec{Name: "test", Unit: "holds", Total: tt.total, Known: tt.known, Network: tt.network, Yields: "nobody"}).Spec()
		if got.Total != tt.wantTotal || got.Known != tt.wantKnown || got.Network != tt.wantNetwork {
			t.Errorf("%+v becomes %+v", tt, got)
		}
	}
}
