// Package netguard decides which addresses of the network Talon contacts. URLs from clients and
// events may lead into the operator's own network. So a URL is checked when it is read. The address
// to which its name leads is checked here again, at the moment of the connection.
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

// Guard decides which network addresses may be connected to. It checks the address of the
// connection, after the name was resolved: later DNS answers do not matter.
type Guard struct {
	// Private allows addresses that are not reached from everywhere: loopback, private
	// and link-local ones.
	Private bool

	// Own are the addresses on which this server listens. It never connects to them. An unspecified
	// IP means every address of this machine.
	Own []netip.AddrPort

	// Charge is called with each address that is about to be connected to, after it was
	// checked; an error refuses the connection. Nil: all are allowed.
	Charge func(to netip.Addr) error

	// Connect makes the connections in place of net.Dialer, such as those of a network in
	// memory. Its addresses are not looked at. Nil: net.Dialer.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial connects like net.Dialer, to allowed addresses only.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if g.Connect != nil {
		return g.Connect(ctx, network, address)
	}
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return g.admit(address) }}
	return d.DialContext(ctx, network, address)
}

// admit checks an address, IP:port, and charges it.
func (g *Guard) admit(address string) error {
	if err := g.Check(address); err != nil || g.Charge == nil {
		return err
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.Charge(at.Addr().Unmap())
}

// Check returns an error if an address, IP:port, must not be contacted.
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

// notPublic are the address blocks that are not of the public internet, by the
// registries of special-purpose addresses (RFC 6890), and those that carry another
// address within.
var notPublic = func() (list []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

var (
	// unicast is all of IPv6 that is given to networks of the public internet.
	unicast = netip.MustParsePrefix("2000::/3")

	// nat64 holds an IPv4 address in its last four bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// Public reports whether an address is one of the public internet. One that leads to
// an IPv4 address (mapped, or by NAT64) counts as that address.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !addr.IsValid() || addr.Is6() && !unicast.Contains(addr) {
		return false
	}
	for _, block := range notPublic {
		if block.Contains(addr) {
			return false
		}
	}
	return true
}
