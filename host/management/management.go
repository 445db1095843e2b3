// Package management serves the relay management API (NIP-86): operators and moderators write the
// moderation log over HTTP, with a request that a nostr key signs (NIP-98).
//
//	management.go  the handler: who may call which method, and the answers
//	auth.go        the authorization of a request (NIP-98)
//	methods.go     the methods, each as rows of the log
//
// Invariants:
//
//  1. Every change is rows of the moderation log. There is no other state.
//  2. A request changes something once: its authorization is for its body, for this relay, for a
//     minute, and is not accepted twice.
//  3. Strangers cost no verification of a signature: the key must have a role first.
package management

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/moderation"
	"talon/host/moderation/reports"
	"talon/internal/recent"
)

// ContentType is the media type of requests and answers.
const ContentType = "application/nostr+json+rpc"

const (
	maxBody = 64 << 10
	maxUsed = 10_000 // authorizations that are remembered
	maxList = 10_000 // entries of an answer
)

// Config configures a handler. All fields are required unless it says otherwise.
type Config struct {
	Operators  []host.PubKey // may call every method
	Moderators []host.PubKey // may call those of events and authors

	// Domains are the host[:port] under which clients know this relay. If there are none, it is the
	// address that a client has connected to.
	Domains []string

	Log      *moderation.Log
	Queue    func(ctx context.Context, limit int) ([]reports.Item, error) // what waits for a decision
	Moderate func(ctx context.Context, rows []moderation.Row) (added []moderation.Row, err error)
	Verify   func(*host.Event) error
	Now      func() time.Time
	Logger   *slog.Logger
}

// Handler serves the API. It may be called by many goroutines.
type Handler struct {
	cfg Config

	mu   sync.Mutex // guards used
	used recent.Map[host.ID, struct{}]
}

// role says which methods a key may call: those of its role and of the lower ones.
type role uint8

const (
	nobody role = iota
	moderator
	operator
)

func (r role) String() string { return [...]string{"nobody", "moderator", "operator"}[r] }

// Bounds returns the rows of the table of bounds.
func Bounds() []bound.Spec {
	return []bound.Spec{{
		Name: "authorizations of NIP-86 that were used", Unit: "events", Total: maxUsed,
		Yields: "the oldest; only those that keys with a role have signed count",
	}}
}

// New returns a handler.
func New(cfg Config) *Handler {
	h := &Handler{cfg: cfg}
	h.used.Size = maxUsed
	return h
}

// roleOf returns the role of a key. The operator names few keys.
func (h *Handler) roleOf(key host.PubKey) role {
	switch {
	case slices.Contains(h.cfg.Operators, key):
		return operator
	case slices.Contains(h.cfg.Moderators, key):
		return moderator
	}
	return nobody
}

// Wants reports whether a request is for the API.
func Wants(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && r.Method == http.MethodPost && kind == ContentType
}

// request is the body of a request.
type request struct {
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// answer is the body of an answer. Result is absent with an error.
type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// failure is an error with the status of its answer.
type failure struct {
	status int
	error
}

func badRequest(format string, args ...any) error {
	return failure{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// ServeHTTP answers a request with JSON, also if it fails.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result, err := h.serve(w, r)
	a, status := answer{Result: result}, http.StatusOK
	if err != nil {
		a, status = answer{Error: err.Error()}, http.StatusInternalServerError
		if f := (failure{}); errors.As(err, &f) {
			status = f.status
		} else {
			h.cfg.Logger.Error("serve the management API", "err", err)
			a.Error = "the server failed; try again later"
		}
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Nostr")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) (any, error) {
	key, auth, err := h.signed(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return nil, failure{http.StatusRequestEntityTooLarge, fmt.Errorf("the body cannot be read, or has more than %d bytes", maxBody)}
	}
	if err := h.acceptOnce(auth, body); err != nil {
		return nil, err
	}
	var ask request
	if err := json.Unmarshal(body, &ask); err != nil {
		return nil, badRequest("the body is not a request: %v", err)
	}
	m, known := methods[ask.Method]
	switch {
	case ask.Method == "supportedmethods":
		return h.supported(h.roleOf(key)), nil
	case settings[ask.Method]:
		return nil, badRequest("%s: the name, description and icon of this relay are options of its configuration (name, description, icon)", ask.Method)
	case !known:
		return nil, badRequest("unknown method %.40q: supportedmethods lists those that there are", ask.Method)
	case h.roleOf(key) < m.role:
		return nil, failure{http.StatusForbidden, fmt.Errorf("method %s needs the role %s, this key is a %s", ask.Method, m.role, h.roleOf(key))}
	}
	if m.queue {
		return h.queue(r.Context())
	}
	if m.list != nil {
		return m.list(h.cfg.Log, h.cfg.Now().Unix()), nil
	}
	rows, err := m.change(ask.Params)
	if err != nil {
		return nil, badRequest("%s: %v", ask.Method, err)
	}
	for i := range rows {
		rows[i].By = key.String()
	}
	if _, err := h.cfg.Moderate(r.Context(), rows); err != nil {
		return nil, err
	}
	h.cfg.Logger.Info("moderated over NIP-86", "method", ask.Method, "by", key.String(), "target", rows[0].Target.String())
	return true, nil
}

// supported returns the methods that a role may call.
func (h *Handler) supported(r role) []string {
	list := []string{"supportedmethods"}
	for name, m := range methods {
		if r >= m.role {
			list = append(list, name)
		}
	}
	slices.Sort(list[1:])
	return list
}
