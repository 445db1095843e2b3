package main

import "net/netip"

// network is what limits of addresses count by: an IPv4 address, or the first 64
// bits of an IPv6 address, and which of the two it is.
type network [9]byte

// networkOf returns the network of an IP address as text. It reports false where
// there is none.
func networkOf(address string) (network, bool) {
	if address == "" { // an error would be allocated
		return network{}, false
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return network{}, false
	}
	var n network
	if addr = addr.Unmap(); addr.Is4() {
		four := addr.As4()
		n[0] = 4
		copy(n[1:], four[:])
	} else {
		sixteen := addr.As16()
		n[0] = 6
		copy(n[1:], sixteen[:8])
	}
	return n, true
}
