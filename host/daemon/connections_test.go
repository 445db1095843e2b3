package daemon

import (
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host/bound"
	"talon/internal/testkit"
)

// TestConnectionsYield shows that the idlest connection of the heaviest network is closed when
// all places are taken, and that a trusted proxy has no network.
func TestConnectionsYield(t *testing.T) {
	c := newConnections(8, []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}, slog.New(slog.DiscardHandler))
	c.pot = bound.NewPot(bound.Spec{Name: "test", Unit: "connections", Total: 16, Yields: "the idlest"})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	// open connects, and plays an address.
	open := func(addr string) (client net.Conn, server *limitedConn, err error) {
		if client, err = net.Dial("tcp", tcp.Addr().String()); err != nil {
			t.Fatal(err)
		}
		accepted, err := tcp.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server = &limitedConn{TCPConn: accepted.(*net.TCPConn), all: c}
		server.hold, err = c.pot.Acquire(c.holder(&net.TCPAddr{IP: net.ParseIP(addr), Port: 1}), 1, server.yield)
		c.open.Inc()
		return client, server, err
	}
	var clients []net.Conn
	var servers []*limitedConn
	for n := range 16 {
		client, server, err := open(netip.AddrFrom4([4]byte{198, 51, byte(n / 2), 1}).String())
		if err != nil {
			t.Fatal(err)
		}
		clients, servers = append(clients, client), append(servers, server)
	}
	for n, client := range clients { // all but the last one are active
		if n < 15 {
			go client.Write([]byte("x"))
			servers[n].Read(make([]byte, 1))
		}
	}
	if _, _, err := open("203.0.113.1"); err != nil {
		t.Fatal(err)
	}
	if n := testutil.ToFloat64(c.yielded); n != 1 {
		t.Errorf("%v connections gave way, want 1", n)
	}
	for _, s := range servers {
		_ = s.Close()
	}
	if n := c.pot.Used(); n != 1 {
		t.Errorf("%d connections are counted, want 1", n)
	}
	for range 12 {
		if _, _, err := open("192.0.2.7"); err != nil {
			t.Fatalf("a trusted proxy gets %v", err)
		}
	}
}

// TestProxyConnectionsYield shows that strangers behind a trusted proxy cannot fill the places. For
// any next connection of the proxy, the one that was idle longest is closed.
func TestProxyConnectionsYield(t *testing.T) {
	proxy := netip.MustParseAddr("192.0.2.7")
	c := newConnections(8, []netip.Prefix{netip.PrefixFrom(proxy, 32)}, slog.New(slog.DiscardHandler))
	c.pot = bound.NewPot(bound.Spec{Name: "test", Unit: "connections", Total: 16, Yields: "the idlest", AnonymousYield: true})
	var closed []int
	take := func(n int, from string) *bound.Hold {
		hold, err := c.pot.Acquire(c.holder(&net.TCPAddr{IP: net.ParseIP(from), Port: 1}), 1, func() { closed = append(closed, n) })
		if err != nil {
			t.Fatalf("connection %d from %s gets %v", n, from, err)
		}
		return hold
	}
	var holds []*bound.Hold
	for n := range 16 {
		holds = append(holds, take(n, "192.0.2.7"))
	}
	for n, hold := range holds { // all but 3 and 9 are active, and then 0 once more
		if n != 3 && n != 9 {
			hold.Touch()
		}
	}
	holds[0].Touch()
	take(16, "192.0.2.7")
	take(17, "203.0.113.1") // a direct one
	take(18, "192.0.2.7")
	if !slices.Equal(closed, []int{3, 9, 1}) {
		t.Errorf("connections %v were closed, want 3, 9 and 1: the idlest", closed)
	}
}

// TestListenerRefuses shows that a connection without a place is closed at once.
func TestListenerRefuses(t *testing.T) {
	c := newConnections(8, nil, slog.New(slog.DiscardHandler))
	c.pot = bound.NewPot(bound.Spec{Name: "test", Unit: "connections", Total: 1, Yields: "nobody"})
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	accepted := make(chan net.Conn, 2)
	go func() {
		for {
			nc, err := c.limit(tcp).Accept()
			if err != nil {
				return
			}
			accepted <- nc
		}
	}()
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	full, err := c.pot.Acquire(bound.Holder{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if nc, err := net.Dial("tcp", tcp.Addr().String()); err == nil { // else it was closed even sooner
		defer nc.Close()
		if _, err := nc.Read(make([]byte, 1)); err == nil || err == io.ErrUnexpectedEOF {
			t.Errorf("a connection without a place reads and gets %v", err)
		}
	}
	full.Release()
	dial()
	testkit.Receive(t, "a connection for which there is a place", accepted)
}
