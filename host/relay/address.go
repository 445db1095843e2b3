package relay

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr returns the address of the client behind the trusted proxies: the
// rightmost one that is none of theirs. Whatever stands left of it was written by
// the client.
func ClientAddr(req *http.Request, proxies []netip.Prefix) netip.Addr {
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	var addr netip.Addr
	if ap, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		addr = ap.Addr().Unmap()
	}
	hops := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && trusted(addr); i-- {
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
