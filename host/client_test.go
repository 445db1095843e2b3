package host

import (
	"net/netip"
	"testing"
)

func TestNetworkOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64", "::ffff:192.0.2.1": "192.0.2.1/32",
		"fe80::1%eth0": "fe80::/64", "127.0.0.1": "invalid Prefix", "::1": "invalid Prefix",
	} {
		if got := NetworkOf(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("%s: got %s, want %s", addr, got, want)
		}
	}
	if got := NetworkOf(netip.Addr{}); got.IsValid() {
		t.Errorf("no address has the network %s", got)
	}
}
