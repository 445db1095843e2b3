package relay

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// TestBanned: an address that is banned loses its open connections, and gets nothing else.
func TestBanned(t *testing.T) {
	var ban atomic.Pointer[netip.Prefix]
	reason := "blocked: banned by the operator: " + strings.Repeat("é", 100)
	w := newWorld(t, behindProxy, func(c *Config, _ *world) {
		c.Banned = func(addr netip.Addr) string {
			if p := ban.Load(); p != nil && p.Contains(addr) {
				return reason
			}
			return ""
		}
		c.Next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a page") })
	})
	from := func(addr string) http.Header { return http.Header{"X-Forwarded-For": {addr}} }
	dial := func(addr string) *client {
		c := w.connect(from(addr))
		c.expect(`["AUTH","…"]`)
		return c
	}
	bad, good := dial("192.0.2.7"), dial("198.51.100.1")
	prefix := netip.MustParsePrefix("192.0.2.0/24")
	ban.Store(&prefix)
	w.relay.CloseBanned()
	if code, text := bad.closed(); code != ws.StatusPolicyViolation || !strings.HasPrefix(text, "blocked: banned") || len(text) > 123 || !utf8.ValidString(text) {
		t.Errorf("closed with %d %q", code, text)
	}
	good.ask(`["REQ","a",{"limit":0}]`, `["EOSE","a"]`)
	if _, answer := w.request(from("192.0.2.9")); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a connection from a banned network: %s", answer.Status)
	}
	for addr, want := range map[string]string{"192.0.2.9": reason + "\n", "198.51.100.1": "a page"} {
		req, err := http.NewRequest(http.MethodGet, w.server.URL+"/page", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = from(addr)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(text) != want {
			t.Errorf("%s: %s %q, %v", addr, answer.Status, text, err)
		}
	}
	ban.Store(nil)
	dial("192.0.2.9").ask(`["REQ","a",{"limit":0}]`, `["EOSE","a"]`)
}
