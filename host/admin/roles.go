package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
)

// Nodes are the processes that are one relay. Some of what an operator asks about is a role,
// which one of them has.
type Nodes interface {
	// Has reports whether this node has a role.
	Has(role string) bool

	// Ask has the node that has a role answer a request. Its errors are for the operator.
	Ask(ctx context.Context, role string, request []byte) (answer []byte, err error)
}

// Here is the [Nodes] of a process that has every role itself.
type Here struct{}

// Has reports true.
func (Here) Has(string) bool { return true }

// Ask returns an error, since there is nobody to ask.
func (Here) Ask(_ context.Context, role string, _ []byte) ([]byte, error) {
	return nil, fmt.Errorf("ask the node with the role %s: this process is alone", role)
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
func Answer(api API, log *slog.Logger) func(ctx context.Context, request []byte) []byte {
	h := &handler{API: api, log: log}
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
			err := api.Panics.Run(func() error {
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
