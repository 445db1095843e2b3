package relay

import (
	"net/http"
	"net/netip"
	"strings"
)

// addrKey is what connections are counted by: an IPv4 address, or the /64 that an
// IPv6 host is usually given. The zero key is not counted.
type addrKey netip.Prefix

func keyOf(a netip.Addr) addrKey {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || a.IsLoopback() {
		return addrKey{}
	}
	size := a.BitLen()
	if a.Is6() {
		size = 64
	}
	p, err := a.Prefix(size)
	if err != nil {
		return addrKey{}
	}
	return addrKey(p)
}

// clientAddr returns the address of the client behind the trusted proxies: the
// rightmost one that is none of theirs. Whatever stands left of it was written by
// the client.
func (r *Relay) clientAddr(req *http.Request) netip.Addr {
	var addr netip.Addr
	if ap, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		addr = ap.Addr().Unmap()
	}
	hops := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && r.trusted(addr); i-- {
		hop := strings.TrimSpace(hops[i])
		if hop == "" {
			continue
		}
		a, err := netip.ParseAddr(hop)
		if err != nil {
			// Some proxies add the port.
			ap, err := netip.ParseAddrPort(hop)
			if err != nil {
				break
			}
			a = ap.Addr()
		}
		addr = a.Unmap()
	}
	return addr
}

func (r *Relay) trusted(a netip.Addr) bool {
	for _, p := range r.cfg.Proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
