package netguard

import "net/netip"

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
// an IPv4 address (mapped, or by NAT64) is what that is.
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
