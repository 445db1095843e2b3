package relay

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gobwas/ws"

	"talon/host"
	"talon/host/wire"
)

// Policy decides who may connect, and which queries are allowed. It must not change its arguments,
// nor keep them after it has returned. An error means that it could not decide.
type Policy interface {
	// Connect is asked before the websocket handshake. The connection that asks
	// is counted; loopback addresses are not counted by address.
	Connect(ctx context.Context, c *host.Connection) (host.Ruling, error)

	// Query is asked before each REQ, COUNT and NEG-OPEN, also one that replaces
	// another with the same id.
	Query(ctx context.Context, q *host.Query) (host.Ruling, error)
}

// maxHeader bounds each thing that is kept of a client's request.
const maxHeader = 256

// newClient returns what a policy gets to know of the sender of the request.
func newClient(addr netip.Addr, req *http.Request) *host.Client {
	return &host.Client{
		Addr:      addr,
		UserAgent: excerpt(req.UserAgent()),
		Origin:    excerpt(req.Header.Get("Origin")),
		Path:      excerpt(req.URL.Path),
	}
}

// excerpt returns the start of s as valid UTF-8, without the memory of the rest.
func excerpt(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), maxHeader)], ""))
}

// stop is why a policy keeps a client out.
type stop struct {
	refusal refusal
	status  int
	text    string
}

// welcome asks the policy about a connection that has a slot. It returns nil if the
// client may come in.
func (r *Relay) welcome(c *conn, req *http.Request) *stop {
	ask := host.Connection{Client: *c.client}
	ask.Open, ask.FromAddr = r.connectionCounts(c)
	ctx, cancel := context.WithTimeout(req.Context(), r.cfg.Limits.QueryTime)
	defer cancel()
	ruling, err := r.connect(ctx, &ask)
	switch {
	case err != nil && req.Context().Err() != nil: // nobody waits for the answer
		return &stop{policyFailed, http.StatusServiceUnavailable, policyFailed.text()}
	case err != nil:
		r.cfg.Log.Error("ask the policy about a connection", "source", c.source.Addr, "err", err)
		return &stop{policyFailed, http.StatusServiceUnavailable, policyFailed.text()}
	case ruling.Action == host.Pass || ruling.Action == host.Accept:
		return nil
	case ruling.Action == host.ShadowReject:
		return &stop{byPolicy, http.StatusForbidden, http.StatusText(http.StatusForbidden)}
	}
	text := reasonOf(ruling)
	if strings.HasPrefix(text, "rate-limited:") {
		return &stop{byPolicy, http.StatusTooManyRequests, text}
	}
	return &stop{byPolicy, http.StatusForbidden, text}
}

// connect turns a panic into an error: the connection's slot must be given back.
func (r *Relay) connect(ctx context.Context, ask *host.Connection) (ruling host.Ruling, err error) {
	defer r.panics.Recover(&err)
	return r.deps.Policy.Connect(ctx, ask)
}

// connectionCounts counts the connections, in all and from the address.
func (r *Relay) connectionCounts(c *conn) (open, fromAddr int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slots, r.fromAddr(c)
}

// reasonOf returns the reason for the client.
func reasonOf(r host.Ruling) string {
	switch {
	case r.Action == host.RequireAuth && r.Reason == "":
		return "auth-required: authenticate first"
	case r.Action == host.RequireAuth && !strings.HasPrefix(r.Reason, "auth-required:"):
		return "auth-required: " + r.Reason
	case r.Reason == "":
		return "blocked: refused by policy"
	}
	return r.Reason
}

// permit asks the policy about a query. It reports whether to answer it; if not,
// the client has had the reason.
func (c *conn) permit(ctx context.Context, verb host.QueryVerb, m *wire.Message) bool {
	if c.relay.deps.Policy == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	ruling, err := c.relay.deps.Policy.Query(ctx, &host.Query{Client: c.client, Verb: verb, Filters: m.Filters})
	refused, why := queryRejected, ""
	switch {
	case err != nil:
		refused, why = queryFailed, c.policyFailed(ctx, err)
	case ruling.Action == host.Pass || ruling.Action == host.Accept:
		return true
	case ruling.Action == host.ShadowReject:
		c.relay.metrics.refusedQueries[queryHidden].Inc()
		m.Filters = blinded(m.Filters)
		return true
	case ruling.Action == host.RequireAuth:
		refused, why = queryNeedsAuth, reasonOf(ruling)
		c.sendChallenge()
	default:
		why = reasonOf(ruling)
	}
	c.relay.metrics.refusedQueries[refused].Inc()
	c.refuseQuery(m, why)
	if err == nil && ruling.End {
		c.endByPolicy(why)
	}
	return false
}

// endByPolicy ends the connection after what is queued, since a policy says so.
func (c *conn) endByPolicy(reason string) {
	c.closeWith(&closeReason{cause: cutPolicy, code: ws.StatusPolicyViolation, reason: strings.ToValidUTF8(reason[:min(len(reason), closeText)], "")})
}

// policyFailed returns the client's message for an error of the policy.
func (c *conn) policyFailed(ctx context.Context, err error) string {
	switch {
	case c.relayEnded():
		return "error: the connection is closing"
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		c.relay.cfg.Log.Warn("the policy took too long", "source", c.source.Addr, "err", err)
		return "error: this took too long, try again later"
	}
	c.relay.cfg.Log.Error("ask the policy about a query", "source", c.source.Addr, "err", err)
	return "error: the policy could not decide, try again later"
}

// blinded returns filters that take the place of others, and match nothing.
func blinded(filters []host.Filter) []host.Filter {
	filters = slices.Clone(filters)
	for i := range filters {
		filters[i].IDs = []host.ID{}
	}
	return filters
}

// queryRefusal says what became of a query that was not allowed; it is a label.
type queryRefusal uint8

const (
	queryRejected queryRefusal = iota
	queryHidden
	queryNeedsAuth
	queryFailed
	queryRefusals
)

func (q queryRefusal) String() string {
	return [queryRefusals]string{"reject", "shadow-reject", "auth-required", "error"}[q]
}
