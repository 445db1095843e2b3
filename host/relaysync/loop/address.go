package loop

import (
	"net/netip"
	"net/url"
	"strings"

	"talon/host/relayclient"
	"talon/sdk/abi"
)

// Normalise returns the canonical form of a relay's URL: scheme and host in lower case,
// no port that the scheme implies, no slash at the end, no final dot. It reports false
// for what is no URL of a relay, or is too long to be one.
func Normalise(address string) (string, bool) {
	address = strings.TrimSpace(address)
	if len(address) > abi.MaxActionRelay {
		return "", false
	}
	for i := range len(address) {
		if c := address[i]; c <= ' ' || c >= 0x7f || c == '\\' || c == '"' {
			return "", false
		}
	}
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return "", false
	}
	address = strings.ToLower(scheme) + "://" + rest
	if relayclient.CheckURL(address) != nil {
		return "", false
	}
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" || u.Hostname() == "" || strings.Contains(u.Hostname(), "%") {
		return "", false
	}
	hostname, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if hostname == "" {
		return "", false
	}
	if ip, err := netip.ParseAddr(hostname); err == nil {
		hostname = ip.String()
		if ip.Is6() {
			hostname = "[" + hostname + "]"
		}
	} else if strings.Contains(hostname, ":") {
		return "", false
	}
	if port != "" && port != defaultPort(u.Scheme) {
		hostname += ":" + port
	}
	tail := strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		tail += "?" + u.RawQuery
	}
	out := u.Scheme + "://" + hostname + tail
	return out, len(out) <= abi.MaxActionRelay
}

func defaultPort(scheme string) string {
	if scheme == "wss" || scheme == "https" {
		return "443"
	}
	return "80"
}

// ownNames are the names of this service, as host or host:port.
type ownNames map[string]bool

// newOwnNames takes domains (with a port where it is not the usual one) and URLs.
func newOwnNames(list []string) ownNames {
	own := ownNames{}
	for _, name := range list {
		name = strings.ToLower(strings.TrimSpace(name))
		if name == "" {
			continue
		}
		if _, rest, ok := strings.Cut(name, "://"); ok {
			if u, ok := Normalise(name); ok {
				own[siteOf(u)] = true
				continue
			}
			name, _, _ = strings.Cut(rest, "/")
		}
		if u, ok := Normalise("ws://" + name); ok {
			own[siteOf(u)] = true
		}
		if u, ok := Normalise("wss://" + name); ok {
			own[siteOf(u)] = true
		}
	}
	return own
}

// siteOf returns host:port of a normalised URL, and only the host where the port is
// a usual one: a proxy in front may speak TLS or not.
func siteOf(u string) string {
	_, rest, _ := strings.Cut(u, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	rest = strings.TrimSuffix(rest, ":80")
	return strings.TrimSuffix(rest, ":443")
}

// has reports whether a normalised URL leads to this service, whatever its path.
func (o ownNames) has(u string) bool { return o[siteOf(u)] }

// list returns the addresses for a strategy.
func (o ownNames) list() (urls []string) {
	for name := range o {
		urls = append(urls, "ws://"+name, "wss://"+name)
	}
	return urls
}

// relayList normalises the relays of an announcement: each once, up to limit of them,
// without our own.
func (o ownNames) relayList(list []string, limit int) (urls []string) {
	seen := map[string]bool{}
	for _, text := range list {
		if len(urls) == limit {
			break
		}
		if u, ok := Normalise(text); ok && !seen[u] && !o.has(u) {
			seen[u] = true
			urls = append(urls, u)
		}
	}
	return urls
}
