package netguard

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700::1": true, "::ffff:8.8.8.8": true, "64:ff9b::808:808": true, "172.32.0.1": true, "100.128.0.1": true,
		"127.0.0.1": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.1.1": false, "100.64.0.1": false, "100.127.255.255": false, "169.254.1.1": false,
		"172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "192.0.0.1": false, "192.0.2.1": false, "198.18.0.1": false, "198.19.255.255": false,
		"224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "::": false, "::1": false, "::ffff:10.0.0.1": false, "64:ff9b::a00:1": false,
		"64:ff9b:1::1": false, "fc00::1": false, "fdff::1": false, "fe80::1": false, "ff02::1": false, "2001::1": false, "2001:db8::1": false, "2002:808:808::1": false,
		"4000::1": false, "::8.8.8.8": false, "100::1": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v, want %v", text, got, want)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
