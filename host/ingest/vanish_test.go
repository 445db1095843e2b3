package ingest

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"talon/host"
)

// vanishRequest returns a request to vanish with values of tags relay.
func vanishRequest(n int, relays ...string) *host.Event {
	e := event(n)
	e.Kind = host.KindVanish
	for _, r := range relays {
		e.Tags = append(e.Tags, host.Tag{"relay", r})
	}
	e.JSON = e.AppendJSON(nil)
	return e
}

// TestVanish shows which requests to vanish are taken, whatever the policy says, and that each network
// has a bound for keys of which nothing is here.
func TestVanish(t *testing.T) {
	refuseAll := func(context.Context, *host.Item, host.Facts) host.Ruling {
		return host.Ruling{Action: host.Reject, Reason: "blocked: no"}
	}
	r := start(t, refuseAll, func(c *Config) {
		c.NamesRelay = func(url string) bool { return url == "wss://here" }
	})
	long := vanishRequest(4, "ALL_RELAYS")
	long.Content = strings.Repeat("x", maxVanish)
	long.JSON = long.AppendJSON(nil)
	changed := r.Vanished()
	for i, tt := range []struct {
		e    *host.Event
		want string
	}{
		{vanishRequest(1), "invalid: this request to vanish has no relay tag that names this relay"},
		{vanishRequest(2, "wss://there"), "invalid: this request to vanish has no relay tag that names this relay"},
		{vanishRequest(3, "wss://there", "wss://here"), "note: all events of this key"},
		{vanishRequest(5, "ALL_RELAYS"), "note: all events of this key"},
		{long, "invalid: this request to vanish has"},
	} {
		if got := r.submit(t, &host.Source{}, tt.e)[0]; !strings.HasPrefix(got.verdict.Reason, tt.want) || got.err != nil || got.verdict.OK() != strings.HasPrefix(tt.want, "note") {
			t.Errorf("request %d: %v, %v", i, got.verdict, got.err)
		}
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told of the request")
	}
	network := &host.Source{Addr: netip.MustParseAddr("192.0.2.1")}
	refused := -1
	for n := 0; n < 2*vanishPerHour && refused < 0; n++ { // the use fades away meanwhile
		if got := r.submit(t, network, vanishRequest(100+n, "ALL_RELAYS"))[0]; strings.HasPrefix(got.verdict.Reason, "rate-limited: ") {
			refused = n
		}
	}
	if refused < vanishPerHour {
		t.Errorf("request %d of a network is refused, want %d at least", refused, vanishPerHour)
	}
	if got := r.submit(t, &host.Source{Addr: netip.MustParseAddr("198.51.100.1")}, vanishRequest(99, "ALL_RELAYS"))[0]; !got.verdict.OK() {
		t.Errorf("from another network: %v", got.verdict)
	}
	r.stop()
}
