package relay

import (
	"net/http"
	"strings"

	"github.com/gobwas/ws"
)

// refuseBanned answers a request from an address that the operator has banned, and reports whether
// it did.
func (r *Relay) refuseBanned(w http.ResponseWriter, req *http.Request) bool {
	reason := r.cfg.Banned(ClientAddr(req, r.cfg.Proxies))
	if reason == "" {
		return false
	}
	if wantsWebsocket(req) {
		r.metrics.rejected[byBan].Inc()
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, reason, http.StatusForbidden)
	return true
}

// CloseBanned closes the open connections from addresses that the operator has banned since.
func (r *Relay) CloseBanned() {
	for _, c := range r.all() {
		c.closeIfBanned()
	}
}

func (c *conn) closeIfBanned() {
	if reason := c.relay.cfg.Banned(c.source.Addr); reason != "" {
		c.closeWith(&closeReason{cause: cutBanned, code: ws.StatusPolicyViolation, reason: strings.ToValidUTF8(reason[:min(len(reason), closeText)], ""), discard: true})
	}
}

// closeText is the most text that a close frame has room for, in bytes (RFC 6455, 5.5).
const closeText = 123
