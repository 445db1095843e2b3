package relay

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/gobwas/ws"
)

// start sends a message but for its last frame, n bytes, and waits until the relay
// has counted this number for all connections.
func (w *world) start(addr string, n int, want float64) *client {
	w.t.Helper()
	c := w.connect(http.Header{"X-Forwarded-For": {addr}})
	c.list() // the challenge
	c.write(frame(ws.OpText, false, 0, `["CLOSE","`+strings.Repeat("x", n-10)))
	wait(w.t, func() bool { return value(w.t, w.relay, "talon_relay_partial_bytes", "") == want })
	return c
}

func (c *client) complete(t *testing.T) {
	t.Helper()
	c.write(frame(ws.OpContinuation, true, 0, `"]`))
	c.send(`["CLOSE","x"]`)
	c.send(`["COUNT","c",{"ids":[]}]`)
	if f, err := c.next(); err != nil || f.Header.OpCode != ws.OpText {
		t.Errorf("after the message: %v %q, %v", f.Header, f.Payload, err)
	}
}

// TestPartialBytes lets many clients begin long messages and not finish them. The network with the
// most bytes makes room. A client that finishes is served.
func TestPartialBytes(t *testing.T) {
	const unit = 100 << 10
	w := newWorld(t, behindProxy, limit(func(l *Limits) {
		l.MessageBytes, l.PartialBytes = 2*unit, 8*unit
		l.Wire.SubID = 2 * unit
	}))
	alone := w.start("192.0.2.1", 2*unit-100, 2*unit-100)
	crowd := make([]*client, 0, 6)
	for i := range 6 {
		crowd = append(crowd, w.start("198.51.100.7", unit+i, 2*unit-100+float64(i+1)*unit+float64(i*(i+1)/2)))
	}
	full := value(t, w.relay, "talon_relay_partial_bytes", "")
	// One more of somebody else: the largest of the crowd's goes, though others have
	// larger ones.
	other := w.start("203.0.113.1", unit, full-5)
	if code, reason := crowd[5].closed(); code != statusTryAgain || !strings.Contains(reason, "try again") {
		t.Errorf("closed with %d %q", code, reason)
	}
	wait(t, func() bool { return value(t, w.relay, "talon_relay_connections_closed_total", "crowded") == 1 })
	for _, c := range append(crowd[:5], alone, other) {
		c.complete(t)
	}
	wait(t, func() bool { return value(t, w.relay, "talon_relay_partial_bytes", "") == 0 })
}

// TestPartialBytesOfTheGone checks that a connection gives its bytes back, in each way of ending.
func TestPartialBytesOfTheGone(t *testing.T) {
	w := newWorld(t, behindProxy)
	c := w.start("192.0.2.1", 50<<10, 50<<10)
	c.net.Close()
	wait(t, func() bool { return value(t, w.relay, "talon_relay_partial_bytes", "") == 0 })
	if n := len(w.relay.reassembly.held); n != 0 {
		t.Errorf("%d connections are counted", n)
	}
}

// Clients on loopback are not counted by network: each is by itself.
func TestLargestOnLoopback(t *testing.T) {
	a := newReassembly(1 << 20)
	network := netip.MustParsePrefix("192.0.2.1/32")
	x, y, z, lone := new(conn), new(conn), &conn{peer: peer{slot: network}}, &conn{peer: peer{slot: network}}
	for c, n := range map[*conn]int{x: 30 << 10, y: 50 << 10, z: 29 << 10, lone: 22 << 10} {
		a.grow(c, n)
	}
	if got := a.largest(); got != z {
		t.Error("the larger one of the network that holds 51 KiB is not found")
	}
	a.release(z)
	if got := a.largest(); got != y {
		t.Error("the larger one of those that are each by itself is not found")
	}
}
