package relay

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr returns the address of the client behind the trusted proxies: the rightmost one that
// is none of theirs. The client wrote all that stands left of it. A client behind a proxy on this
// machine that is not trusted has the address [untrustedProxy].
func ClientAddr(req *http.Request, proxies []netip.Prefix) netip.Addr {
	if ByUntrustedProxy(req, proxies) {
		return untrustedProxy
	}
	trusted := func(a netip.Addr) bool { return contains(proxies, a) }
	addr := peerOf(req)
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
			if err != nil && addr.IsLoopback() {
				return untrustedProxy
			}
			if err != nil {
				break
			}
			a = ap.Addr()
		}
		addr = a.Unmap()
	}
	return addr
}

// untrustedProxy is the one address of all clients behind a proxy on this machine that is not
// trusted: loopback is exempt from limits, and strangers must not be. No host has it (RFC 7600).
var untrustedProxy = netip.AddrFrom4([4]byte{192, 0, 0, 8})

// peerOf returns the address that a request came from, which may be a proxy's.
func peerOf(req *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// ByUntrustedProxy reports whether a proxy on this machine that is not trusted has passed the
// request on.
func ByUntrustedProxy(req *http.Request, proxies []netip.Prefix) bool {
	peer := peerOf(req)
	return peer.IsLoopback() && !contains(proxies, peer) && forwarded(req)
}

// Direct reports whether a request comes from this machine, without a proxy.
func Direct(req *http.Request) bool { return peerOf(req).IsLoopback() && !forwarded(req) }

// forwarded reports whether a proxy has passed the request on.
func forwarded(req *http.Request) bool {
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via", "X-Forwarded-Proto", "X-Forwarded-Host"} {
		if req.Header.Get(name) != "" {
			return true
		}
	}
	return false
}
