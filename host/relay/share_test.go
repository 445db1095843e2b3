package relay

import (
	"context"
	"net/http"
	"testing"

	"talon/host"
)

// Connections from one address read on one account, which a client does not lose by
// leaving; each connection on loopback has its own.
func TestShares(t *testing.T) {
	shares := make(chan *host.Share, 1)
	w := newWorld(t, policy(&fakePolicy{query: func(ctx context.Context, _ *host.Query) (host.Ruling, error) {
		shares <- host.ShareOf(ctx)
		return host.Ruling{}, nil
	}}), behindProxy)
	share := func(addr string) *host.Share {
		t.Helper()
		c := w.connect(http.Header{"X-Forwarded-For": {addr}})
		c.list() // the challenge
		c.ask(`["REQ","a",{}]`, `["EOSE","a"]`)
		got := <-shares
		if got == nil {
			t.Fatalf("%s reads on no account", addr)
		}
		_ = c.net.Close()
		return got
	}
	first := share("192.0.2.7")
	wait(t, func() bool { return w.slots() == 0 })
	if share("192.0.2.7") != first {
		t.Error("who comes back is somebody else")
	}
	if share("192.0.2.8") == first || share("2001:db8::1") != share("2001:db8::2") {
		t.Error("accounts are not by address")
	}
	if local := share("127.0.0.1"); local == share("127.0.0.1") {
		t.Error("two connections on loopback are one client")
	}
	wait(t, func() bool { return w.slots() == 0 })
	w.relay.forgetNetworks(w.now().Add(2 * shareKept))
	w.relay.mu.Lock()
	defer w.relay.mu.Unlock()
	if n := len(w.relay.byAddr); n != 0 {
		t.Errorf("%d addresses are remembered", n)
	}
}
