package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"talon/host/relaysync"
)

// Sync lets an operator see the sync with other relays, and start comparisons.
type Sync interface {
	Status(ctx context.Context, q relaysync.Query) (relaysync.Snapshot, error)

	// Now starts a new comparison with a relay, or with all for an empty URL, and returns
	// how many.
	Now(ctx context.Context, url string) (int, error)

	// Unbar resets the failures and the bar of a relay.
	Unbar(ctx context.Context, url string) error
}

const (
	pathSync      = "/sync"       // GET, relay, repository, limit
	pathSyncNow   = "/sync/now"   // POST a named relay, or none
	pathSyncUnbar = "/sync/unbar" // POST a named relay
)

// named is a relay that a change is about.
type named struct {
	Relay string `json:"relay"`
}

// begun is how many relays are compared again.
type begun struct {
	Relays int `json:"relays"`
}

const (
	maxSynced     = 10_000
	defaultSynced = 50
)

func (h *handler) syncs(r *http.Request) (any, error) {
	if h.Sync == nil {
		return nil, noSync
	}
	values := r.URL.Query()
	limit, err := limitOf(r, defaultSynced, maxSynced)
	if err != nil {
		return nil, err
	}
	q := relaysync.Query{Relay: values.Get("relay"), Repository: values.Get("repository"), Limit: limit}
	status, err := h.Sync.Status(r.Context(), q)
	return status, syncProblem(err)
}

var noSync = problem{http.StatusNotFound, errors.New("this server does not follow other relays (option sync)")}

func (h *handler) syncNow(r *http.Request) (any, error) {
	return h.aboutRelay(r, func(relay string) (any, error) {
		n, err := h.Sync.Now(r.Context(), relay)
		return begun{n}, err
	})
}

func (h *handler) syncUnbar(r *http.Request) (any, error) {
	return h.aboutRelay(r, func(relay string) (any, error) { return begun{1}, h.Sync.Unbar(r.Context(), relay) })
}

func (h *handler) aboutRelay(r *http.Request, do func(relay string) (any, error)) (any, error) {
	if h.Sync == nil {
		return nil, noSync
	}
	var ask named
	if err := parse(r, &ask); err != nil {
		return nil, err
	}
	done, err := do(ask.Relay)
	return done, syncProblem(err)
}

// syncProblem gives an error of sync its status, and leaves nil as it is.
func syncProblem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, relaysync.ErrUnknownRelay), errors.Is(err, relaysync.ErrUnknownRepository):
		return problem{http.StatusNotFound, err}
	}
	return problem{http.StatusServiceUnavailable, err}
}

// Sync returns the status of sync.
func (c *Client) Sync(ctx context.Context, q relaysync.Query) (status relaysync.Snapshot, err error) {
	values := url.Values{"limit": {strconv.Itoa(q.Limit)}, "relay": {q.Relay}, "repository": {q.Repository}}
	err = c.get(ctx, pathSync, values, &status)
	return status, err
}

// SyncNow starts a new comparison with a relay, or with all for an empty URL, and returns
// how many.
func (c *Client) SyncNow(ctx context.Context, relay string) (int, error) {
	var done begun
	err := c.post(ctx, pathSyncNow, named{relay}, &done)
	return done.Relays, err
}

// SyncUnbar resets the failures and the bar of a relay.
func (c *Client) SyncUnbar(ctx context.Context, relay string) error {
	return c.post(ctx, pathSyncUnbar, named{relay}, new(begun))
}
