package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"

	"talon/host/gitfetch"
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
	handle        func(*http.Request) (any, error)
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
	here := answerBy(r.handle)
	if h.Nodes == nil {
		return here
	}
	return func(w http.ResponseWriter, req *http.Request) {
		if h.Nodes.Has(r.role) {
			here(w, req)
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
		mux.HandleFunc(r.pattern, answerBy(r.handle))
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
			err := surface.Panics.Run(func() error {
				mux.ServeHTTP(w, req)
				return nil
			})
			if err != nil {
				answer(w, http.StatusInternalServerError, failure{err.Error()})
			}
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

// Hunt lets an operator see the search for git data, and start a round of it.
type Hunt interface {
	// Status returns the status of the hunt, with at most the given number of
	// repositories and of domains.
	Status(ctx context.Context, limit int) (gitfetch.Status, error)

	// FetchNow begins a round of the search for an identifier now. The repository is the
	// address of one of them, or empty.
	FetchNow(ctx context.Context, repository, identifier string) error
}

const (
	pathHunt    = "/hunt"     // GET, limit
	pathHuntNow = "/hunt/now" // POST a hurry
)

type fetchNowRequest struct {
	Repository string `json:"repository"`
	Identifier string `json:"identifier"`
}

const (
	maxIdentifier = 4096 // bytes
	maxHunted     = 10_000
	defaultHunted = 100
)

var noHunt = problem{http.StatusNotFound, errors.New("this server does not hunt for git data")}

func (h *handler) hunts(r *http.Request) (any, error) {
	if h.Hunt == nil {
		return nil, noHunt
	}
	limit, err := limitOf(r, defaultHunted, maxHunted)
	if err != nil {
		return nil, err
	}
	return h.huntStatus(r, limit)
}

func (h *handler) huntNow(r *http.Request) (any, error) {
	if h.Hunt == nil {
		return nil, noHunt
	}
	var ask fetchNowRequest
	if err := parse(r, &ask); err != nil {
		return nil, err
	}
	if ask.Identifier == "" || len(ask.Identifier) > maxIdentifier || len(ask.Repository) > maxIdentifier+100 {
		return nil, problem{http.StatusBadRequest, errors.New("the identifier is missing or too long")}
	}
	if err := h.Hunt.FetchNow(r.Context(), ask.Repository, ask.Identifier); err != nil {
		return nil, problem{http.StatusServiceUnavailable, err}
	}
	h.log.Info("the operator hurries a search", "identifier", ask.Identifier)
	return h.huntStatus(r, defaultHunted)
}

func (h *handler) huntStatus(r *http.Request, limit int) (any, error) {
	status, err := h.Hunt.Status(r.Context(), limit)
	if err != nil {
		return nil, problem{http.StatusServiceUnavailable, err}
	}
	return status, nil
}

// Hunt returns the status of the hunt for git data.
func (c *Client) Hunt(ctx context.Context, limit int) (status gitfetch.Status, err error) {
	err = c.get(ctx, pathHunt, url.Values{"limit": {strconv.Itoa(limit)}}, &status)
	return status, err
}

// HuntNow begins a round of the search for an identifier now.
func (c *Client) HuntNow(ctx context.Context, repository, identifier string) error {
	var status gitfetch.Status
	return c.post(ctx, pathHuntNow, fetchNowRequest{repository, identifier}, &status)
}
