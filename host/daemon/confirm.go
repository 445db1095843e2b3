package daemon

import (
	"context"
	"net/http"
	"time"

	"talon/host"
	"talon/host/relay"
)

// confirmation says whether this node knows the moderation log of all nodes. One that cannot read
// it for long would go on serving what another node has taken down.
type confirmation struct {
	last  func() time.Time // when the log was known in full; nil: this process is the only one
	limit time.Duration
	now   func() time.Time
}

// newConfirmation returns the confirmation for a database.
func newConfirmation(db Store, limit time.Duration) *confirmation {
	c := &confirmation{limit: limit, now: time.Now}
	if db, ok := db.(pg); ok {
		c.last = db.Confirmed
	}
	return c
}

// late reports whether the node must not serve what is stored.
func (c *confirmation) late() bool { return c.last != nil && c.now().Sub(c.last()) > c.limit }

// unconfirmed is the answer to those who want to read.
const unconfirmed = "this node cannot confirm what the operator has taken down, since its database is away: try again later"

// handler answers 503 in place of a handler while the node is late.
func (c *confirmation) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.late() {
			w.Header().Set("Retry-After", "30")
			http.Error(w, unconfirmed, http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// policy refuses queries while the node is late.
func (c *confirmation) policy(p relay.Policy) relay.Policy { return confirmingPolicy{p, c} }

type confirmingPolicy struct {
	relay.Policy
	*confirmation
}

func (p confirmingPolicy) Query(ctx context.Context, q *host.Query) (host.Ruling, error) {
	if p.late() {
		return host.Ruling{Action: host.Reject, Rule: "unconfirmed", Reason: "error: " + unconfirmed}, nil
	}
	return p.Policy.Query(ctx, q)
}
