package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	"talon/host/githttp"
)

// entrance is the HTTP servers of the daemon. They serve from the moment at which the
// addresses are taken: until what they serve is ready, which takes a minute where modules
// are compiled, clients are told to come again.
type entrance struct {
	listeners []net.Listener
	servers   []*http.Server
	handlers  []*ready
	ended     []chan error // of each server, nil after an orderly end
}

// enter serves on the listeners.
func (d *Daemon) enter(listeners []net.Listener) *entrance {
	e := &entrance{listeners: listeners}
	for _, l := range listeners {
		h, ended := &ready{}, make(chan error, 1)
		s := d.server(h)
		e.handlers, e.servers, e.ended = append(e.handlers, h), append(e.servers, s), append(e.ended, ended)
		go func() {
			err := s.Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			} else {
				err = fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			ended <- err
		}()
	}
	return e
}

// open lets clients in, each server to its handler.
func (e *entrance) open(handlers ...http.Handler) {
	for i, h := range handlers {
		e.handlers[i].handler.Store(&h)
	}
}

// close ends all servers at once, where the daemon does not come to serve.
func (e *entrance) close() {
	for i, s := range e.servers {
		_ = s.Close()
		<-e.ended[i]
		_ = e.listeners[i].Close() // Serve may not have begun
	}
}

// ready is a handler that there may not be yet.
type ready struct{ handler atomic.Pointer[http.Handler] }

func (h *ready) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := h.handler.Load(); handler != nil {
		(*handler).ServeHTTP(w, r)
		return
	}
	starting(w, r)
}

// retryAfter is how many seconds clients are told to wait while the daemon starts.
const retryAfter = "5"

// starting answers every request until the daemon is ready: websockets, git and pages.
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
