package testkit

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Gate is a TCP address in front of a server. A test takes the server away from the clients of that address, and
// gives it back, while others reach it at its own address.
type Gate struct {
	listener net.Listener
	server   string

	mu     sync.Mutex // guards the fields below
	shut   bool
	thawed chan struct{} // closed, unless the gate holds back what arrives
	conns  map[net.Conn]bool
}

// NewGate opens a gate to the server at an address, on a port of its own, until the end of the test.
func NewGate(tb testing.TB, server string) *Gate {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g := &Gate{listener: l, server: server, thawed: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(g.thawed)
	tb.Cleanup(func() {
		_ = l.Close()
		g.Shut()
		g.Open()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go g.pass(c)
		}
	}()
	return g
}

// Address returns the host and port of the gate.
func (g *Gate) Address() string { return g.listener.Addr().String() }

// URL returns the gate as the address of a relay.
func (g *Gate) URL() string { return "ws://" + g.Address() }

// pass copies in both directions until one side ends.
func (g *Gate) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer server.Close()
	g.mu.Lock()
	shut := g.shut
	if !shut {
		g.conns[client] = true
	}
	g.mu.Unlock()
	if shut {
		return
	}
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.conns, client)
	}()
	go func() {
		_, _ = io.Copy(held{server, g}, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(held{client, g}, server)
}

// held is a connection whose writes wait while the gate holds back what arrives.
type held struct {
	net.Conn
	gate *Gate
}

func (h held) Write(p []byte) (int, error) {
	h.gate.mu.Lock()
	thawed := h.gate.thawed
	h.gate.mu.Unlock()
	<-thawed
	return h.Conn.Write(p)
}

// Shut ends all connections, and takes no more.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.conns {
		_ = c.Close()
	}
	clear(g.conns)
}

// Freeze holds back what arrives in either direction, and ends no connection, as a network does that loses packets.
func (g *Gate) Freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.thawed:
		g.thawed = make(chan struct{})
	default:
	}
}

// Open ends what Shut and Freeze began.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	select {
	case <-g.thawed:
	default:
		close(g.thawed)
	}
}
