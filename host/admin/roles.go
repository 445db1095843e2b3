package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"talon/host/relaysync"
)

// Nodes are the processes that are one relay. Some of what an operator asks about is a role,
// which one of them has.
type Nodes interface {
	// Has reports whether this node has a role.
	Has(role string) bool

	// Ask has the node that has a role answer a request. Its errors are for the operator.
	Ask(ctx context.Context, role string, request []byte) (answer []byte, err error)
}

// ofRole is a path that the node with a role answers.
type ofRole struct {
	role, pattern string
	do            http.HandlerFunc
}

func (h *handler) ofRoles() []ofRole {
	return []ofRole{
		{"hunt", "GET " + pathHunt, h.hunts},
		{"hunt", "POST " + pathHuntNow, h.huntNow},
		{"sync", "GET " + pathSync, h.syncs},
		{"sync", "POST " + pathSyncNow, h.syncNow},
		{"sync", "POST " + pathSyncUnbar, h.syncUnbar},
	}
}

// forwarded is a request that one node makes of another, and reply the answer.
type forwarded struct {
	Method string `json:"method"`
	URI    string `json:"uri"`
	Body   []byte `json:"body,omitempty"`
}

type reply struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// whereRole answers on the node that has the role.
func (h *handler) whereRole(r ofRole) http.HandlerFunc {
	if h.Nodes == nil {
		return r.do
	}
	return func(w http.ResponseWriter, req *http.Request) {
		if h.Nodes.Has(r.role) {
			r.do(w, req)
			return
		}
		text, err := body(req, maxJSON)
		if err != nil {
			answer(w, statusOf(err), failure{err.Error()})
			return
		}
		var came reply
		text, err = json.Marshal(forwarded{req.Method, req.URL.RequestURI(), text})
		if err == nil {
			text, err = h.Nodes.Ask(req.Context(), r.role, text)
		}
		if err == nil {
			err = json.Unmarshal(text, &came)
		}
		if err != nil {
			answer(w, http.StatusServiceUnavailable, failure{err.Error()})
			return
		}
		answer(w, came.Status, came.Body)
	}
}

// Answer returns what answers the requests of other nodes about the roles of this one.
func Answer(surface Surface, log *slog.Logger) func(ctx context.Context, request []byte) []byte {
	h := &handler{Surface: surface, log: log}
	mux := http.NewServeMux()
	for _, r := range h.ofRoles() {
		mux.HandleFunc(r.pattern, r.do)
	}
	mux.HandleFunc("/", unknownPath)
	return func(ctx context.Context, request []byte) []byte {
		var f forwarded
		w := &recorded{header: http.Header{}}
		err := json.Unmarshal(request, &f)
		var req *http.Request
		if err == nil {
			req, err = http.NewRequestWithContext(ctx, f.Method, f.URI, bytes.NewReader(f.Body))
		}
		if err == nil {
			mux.ServeHTTP(w, req)
		} else {
			answer(w, http.StatusBadRequest, failure{err.Error()})
		}
		text, err := json.Marshal(reply{w.status, w.body.Bytes()})
		if err != nil {
			log.Error("answer another node", "err", err)
		}
		return text
	}
}

// recorded keeps an answer.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorded) Header() http.Header            { return w.header }
func (w *recorded) WriteHeader(status int)         { w.status = status }
func (w *recorded) Write(text []byte) (int, error) { return w.body.Write(text) }

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
