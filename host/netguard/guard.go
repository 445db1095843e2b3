package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrForbidden is wrapped by errors about addresses that are not contacted.
var ErrForbidden = errors.New("this address is not contacted")

// Guard decides which network addresses are connected to. It looks at the address
// that is connected to, after the name was resolved: what DNS says in between does
// not matter.
type Guard struct {
	// Private allows addresses that are not reached from everywhere: loopback, private
	// and link-local ones.
	Private bool

	// Own are the addresses on which this server listens. They are never connected
	// to; an unspecified IP stands for every address of this machine.
	Own []netip.AddrPort

	// Connect makes the connections in place of net.Dialer, such as those of a network in
	// memory. Its addresses are not looked at. Nil: net.Dialer.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial connects as net.Dialer does.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.Connect != nil {
		return g.Connect(ctx, network, address)
	}
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return g.Check(address) }}
	return d.DialContext(ctx, network, address)
}

// Check reports why an address, IP:port, is not contacted.
func (g *Guard) Check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if !g.Private && !Public(ip) {
		return fmt.Errorf("%w: %s is private (option allow-private)", ErrForbidden, ip)
	}
	for _, own := range g.Own {
		if own.Port() == at.Port() && (own.Addr().Unmap() == ip || own.Addr().IsUnspecified() && local(ip)) {
			return fmt.Errorf("%w: it is our own", ErrForbidden)
		}
	}
	return nil
}

// local reports whether an address is one of this machine's.
func local(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == ip {
				return true
			}
		}
	}
	return false
}
