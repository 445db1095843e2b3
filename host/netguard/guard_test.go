package netguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestGuard(t *testing.T) {
	own := []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:7334"), netip.MustParseAddrPort("8.8.8.8:443")}
	for address, want := range map[string]struct{ public, private bool }{
		"1.1.1.1:443":              {true, true},
		"[2606:4700::1111]:443":    {true, true},
		"8.8.8.8:443":              {false, false}, // our own
		"8.8.8.8:444":              {true, true},
		"127.0.0.1:7334":           {false, false}, // our own
		"[::1]:7334":               {false, false}, // our own
		"[::ffff:127.0.0.1]:7334":  {false, false}, // our own
		"127.0.0.1:80":             {false, true},
		"10.1.2.3:80":              {false, true},
		"172.16.0.1:80":            {false, true},
		"192.168.1.1:80":           {false, true},
		"169.254.169.254:80":       {false, true},
		"100.64.0.1:80":            {false, true},
		"0.1.2.3:80":               {false, true},
		"224.0.0.1:80":             {false, true},
		"255.255.255.255:80":       {false, true},
		"[::ffff:10.0.0.1]:80":     {false, true},
		"[fd00::1]:80":             {false, true},
		"[fe80::1%eth0]:80":        {false, true},
		"[64:ff9b::a00:1]:80":      {false, true}, // 10.0.0.1 behind NAT64
		"[2002:a00:1::]:80":        {false, true}, // 10.0.0.1 behind 6to4
		"[::10.0.0.1]:80":          {false, true},
		"not an address":           {false, false},
		"example.com:80":           {false, false},
		"[2001:db8::1]:80":         {false, true},
		"[2a00:1450:4001::200]:80": {true, true},
	} {
		for _, private := range []bool{false, true} {
			g := Guard{Private: private, Own: own}
			err := g.Check(address)
			if ok := map[bool]bool{false: want.public, true: want.private}[private]; ok != (err == nil) {
				t.Errorf("%s, private %v: %v", address, private, err)
			}
			if err != nil && !errors.Is(err, ErrForbidden) {
				t.Errorf("%s: %v is not ErrForbidden", address, err)
			}
		}
	}
}

// A name is checked by what it leads to, at the moment of the connection.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	name := net.JoinHostPort("localhost", port)
	if _, err := (&Guard{}).Dial(t.Context(), "tcp", name); !errors.Is(err, ErrForbidden) {
		t.Errorf("%v", err)
	}
	conn, err := (&Guard{Private: true}).Dial(t.Context(), "tcp", name)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// Each address that a name leads to is charged before it is connected to, and none that is
// forbidden.
func TestCharge(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	name := net.JoinHostPort("localhost", port)
	full := errors.New("full")
	var charged []netip.Addr
	g := Guard{Private: true, Charge: func(to netip.Addr) error {
		if charged = append(charged, to); len(charged) > 2 {
			return full
		}
		return nil
	}}
	for range 2 { // localhost may lead to ::1 too, which is another address
		conn, err := g.Dial(t.Context(), "tcp4", name)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if _, err := g.Dial(t.Context(), "tcp4", name); !errors.Is(err, full) {
		t.Errorf("a connection to an address without a part left: %v, want %v", err, full)
	}
	for _, to := range charged {
		if to != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%v was charged, want 127.0.0.1", to)
		}
	}
	charged = nil
	g.Private = false
	if _, err := g.Dial(t.Context(), "tcp4", name); !errors.Is(err, ErrForbidden) || len(charged) > 0 {
		t.Errorf("a forbidden address: %v, and %v was charged", err, charged)
	}
}

// Connect takes the place of the network.
func TestConnect(t *testing.T) {
	want := errors.New("not today")
	g := &Guard{Connect: func(_ context.Context, network, address string) (net.Conn, error) {
		if network != "tcp" || address != "relay.example:80" {
			t.Errorf("connect to %s over %s", address, network)
		}
		return nil, want
	}}
	if _, err := g.Dial(t.Context(), "tcp", "relay.example:80"); !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
}
