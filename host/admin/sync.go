package admin

import (
	"context"
	"errors"
	"fmt"
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

func (h *handler) syncs(w http.ResponseWriter, r *http.Request) {
	if h.Sync == nil {
		answer(w, http.StatusNotFound, failure{noSync})
		return
	}
	values := r.URL.Query()
	q := relaysync.Query{Relay: values.Get("relay"), Repository: values.Get("repository"), Limit: defaultSynced}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			answer(w, http.StatusBadRequest, failure{fmt.Sprintf("limit %.20q is wrong: want a number from 1", text)})
			return
		}
		q.Limit = min(n, maxSynced)
	}
	status, err := h.Sync.Status(r.Context(), q)
	if err != nil {
		answer(w, statusOfSync(err), failure{err.Error()})
		return
	}
	answer(w, http.StatusOK, status)
}

const noSync = "this server does not follow other relays (option sync)"

func (h *handler) syncNow(w http.ResponseWriter, r *http.Request) {
	h.aboutRelay(w, r, func(relay string) (any, error) {
		n, err := h.Sync.Now(r.Context(), relay)
		return begun{n}, err
	})
}

func (h *handler) syncUnbar(w http.ResponseWriter, r *http.Request) {
	h.aboutRelay(w, r, func(relay string) (any, error) { return begun{1}, h.Sync.Unbar(r.Context(), relay) })
}

func (h *handler) aboutRelay(w http.ResponseWriter, r *http.Request, do func(relay string) (any, error)) {
	var ask named
	err := parse(r, &ask)
	switch {
	case h.Sync == nil:
		answer(w, http.StatusNotFound, failure{noSync})
		return
	case err != nil:
		answer(w, statusOf(err), failure{err.Error()})
		return
	}
	done, err := do(ask.Relay)
	if err != nil {
		answer(w, statusOfSync(err), failure{err.Error()})
		return
	}
	answer(w, http.StatusOK, done)
}

func statusOfSync(err error) int {
	if errors.Is(err, relaysync.ErrUnknownRelay) || errors.Is(err, relaysync.ErrUnknownRepository) {
		return http.StatusNotFound
	}
	return http.StatusServiceUnavailable
}

// Sync returns the status of sync.
func (c *Client) Sync(ctx context.Context, q relaysync.Query) (status relaysync.Snapshot, err error) {
	values := url.Values{"limit": {strconv.Itoa(q.Limit)}, "relay": {q.Relay}, "repository": {q.Repository}}
	err = c.ask(ctx, http.MethodGet, pathSync, values, nil, &status)
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
