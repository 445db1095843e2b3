package gitfetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"talon/host/netguard"
)

// Errors of the guard.
var (
	errPrivate = errors.New("the name leads to an address that is not public")
	errCrowded = errors.New("too many connections to one address")
)

const (
	dialTime     = 10 * time.Second
	maxAddresses = 4 // of a name that are tried
)

// guard connects to public addresses only.
type guard struct {
	private bool
	most    int // connections to one address, under whatever names
	lookup  func(ctx context.Context, name string) ([]netip.Addr, error)
	dialer  net.Dialer

	mu   sync.Mutex // guards open
	open map[netip.Addr]int
}

func newGuard(private bool, most int) *guard {
	return &guard{
		private: private, most: most, open: make(map[netip.Addr]int),
		lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		},
		dialer: net.Dialer{KeepAlive: 15 * time.Second},
	}
}

// dial connects to host:port. The name is looked up here, and what is connected to is
// the address that was checked.
func (g *guard) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	name, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if addr, err := netip.ParseAddr(name); err == nil {
		addrs = []netip.Addr{addr}
	} else if addrs, err = g.lookup(ctx, name); err != nil {
		return nil, err
	}
	var allowed []netip.Addr
	for _, addr := range addrs {
		if addr = addr.Unmap(); (g.private || netguard.Public(addr)) && addr.Zone() == "" {
			allowed = append(allowed, addr)
		}
	}
	allowed = allowed[:min(len(allowed), maxAddresses)]
	deadline, _ := ctx.Deadline()
	failed := error(errPrivate)
	for i, addr := range allowed {
		// One that does not answer leaves time for the others.
		share := time.Until(deadline) / time.Duration(len(allowed)-i)
		conn, err := g.connect(ctx, network, addr, port, share)
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

func (g *guard) connect(ctx context.Context, network string, addr netip.Addr, port string, most time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	g.mu.Lock()
	if g.open[addr] >= g.most {
		g.mu.Unlock()
		return nil, fmt.Errorf("%w: %s", errCrowded, addr)
	}
	g.open[addr]++
	g.mu.Unlock()
	leave := sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.open[addr]--; g.open[addr] == 0 {
			delete(g.open, addr)
		}
	})
	conn, err := g.dialer.DialContext(ctx, network, net.JoinHostPort(addr.String(), port))
	if err != nil {
		leave()
		return nil, err
	}
	return &guarded{conn, leave}, nil
}

// guarded is a connection that counts until it is closed.
type guarded struct {
	net.Conn
	leave func()
}

func (c *guarded) Close() error {
	c.leave()
	return c.Conn.Close()
}
