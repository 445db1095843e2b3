package daemon

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"talon/host/bound"
	"talon/host/githttp"
	"talon/host/relay"
)

const (
	// startPatience is how long a request waits for the daemon to be ready. Some clients of
	// relays give up for good after an answer with an error.
	startPatience = 10 * time.Second

	// maxStarting is how many requests wait at one time.
	maxStarting = 2048

	// retryAfter is the Retry-After of answers while the daemon starts, in seconds.
	retryAfter = "5"
)

// newStarting returns the limit of requests that wait for the daemon to be ready.
func newStarting() *bound.Pot {
	return bound.NewPot(bound.Spec{
		Name: "requests that wait while the server starts", Unit: "requests", Total: maxStarting,
		Yields: "the stalest of the heaviest network is asked to come again",
	})
}

// ready is a handler that is installed when the server is ready. Until then, requests wait.
type ready struct {
	handler  atomic.Pointer[http.Handler]
	opened   chan struct{} // closed by open
	waiting  *bound.Pot
	proxies  []netip.Prefix
	patience time.Duration
}

// open lets requests in. Further calls must not be made.
func (h *ready) open(handler http.Handler) {
	h.handler.Store(&handler)
	close(h.opened)
}

func (h *ready) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := h.handler.Load()
	if handler == nil && h.mayWait(r) {
		h.wait(r)
		handler = h.handler.Load()
	}
	if handler == nil {
		starting(w, r)
		return
	}
	(*handler).ServeHTTP(w, r)
}

// mayWait reports whether a request waits. Those that ask how the server is do not, and those that
// ask what a page may do have their answer.
func (h *ready) mayWait(r *http.Request) bool {
	return r.URL.Path != "/healthz" && r.Method != http.MethodOptions
}

// wait waits until the handler opens, for the patience at most.
func (h *ready) wait(r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), h.patience)
	defer stop()
	hold, err := h.waiting.Acquire(bound.Holder{Addr: relay.ClientAddr(r, h.proxies)}, 1, stop)
	if err != nil {
		return
	}
	defer hold.Release()
	select {
	case <-h.opened:
	case <-ctx.Done():
	}
}

// starting asks a client to come again later: websockets, git and pages.
func starting(w http.ResponseWriter, r *http.Request) {
	githttp.CORS(w.Header())
	w.Header().Set("Connection", "close")
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", retryAfter)
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, "starting\n")
}
