package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"talon/host/githttp"
	"talon/host/relay"
	"talon/host/repos"
)

// listeners is the HTTP servers of the daemon. They serve from the moment at which the
// addresses are taken. Until the daemon is ready, which takes a minute where modules are compiled,
// requests wait, and are then asked to come again.
type listeners struct {
	sockets  []net.Listener
	servers  []*http.Server
	handlers []*ready
	ended    []chan error // of each server, nil after an orderly end; then closed
}

// startListeners serves on the sockets, within the limit of connections. Requests wait with
// patience until the listeners open.
func (d *Daemon) startListeners(sockets []net.Listener, patience time.Duration) *listeners {
	e := &listeners{sockets: sockets}
	for i, l := range sockets {
		h, ended := &ready{opened: make(chan struct{}), waiting: d.conns.starting, proxies: d.cfg.Proxies, patience: patience}, make(chan error, 1)
		s := d.server(h)
		e.handlers, e.servers, e.ended = append(e.handlers, h), append(e.servers, s), append(e.ended, ended)
		serve := s.Serve
		if i == 0 && d.tls != nil {
			s.TLSConfig = d.tls
			serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
		}
		go func() {
			err := serve(d.conns.limit(l))
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			} else {
				err = fmt.Errorf("serve %s: %w", l.Addr(), err)
			}
			ended <- err
			close(ended)
		}()
	}
	return e
}

// open lets clients in, each server to its handler.
func (e *listeners) open(handlers ...http.Handler) {
	for i, h := range handlers {
		e.handlers[i].open(h)
	}
}

// close ends all servers without a drain, where the daemon does not come to serve. Servers
// that have ended are left alone.
func (e *listeners) close() {
	for i, s := range e.servers {
		_ = s.Close()
		<-e.ended[i]
		_ = e.sockets[i].Close() // Serve may not have begun
	}
}

// front serves what is neither a websocket nor NIP-11 on the relay's own address: git, health,
// metrics for this machine, and pages.
func (d *Daemon) front(git, pages http.Handler, shown *registry, now func() condition) http.Handler {
	operators := http.NewServeMux()
	operators.Handle("GET /metrics", hereOnly(shown.Handler()))
	operators.HandleFunc("GET /healthz", d.healthz(now))
	gitOrAnswer := d.git.Handler(git)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A mux would clean the paths of repositories.
		if githttp.IsGit("/", repos.IsPath, r) {
			gitOrAnswer.ServeHTTP(w, r)
			return
		}
		if _, pattern := operators.Handler(r); pattern != "" {
			operators.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// operators serves metrics and health on an address of their own.
func (d *Daemon) operators(shown *registry, now func() condition) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", shown.Handler())
	mux.HandleFunc("GET /healthz", d.healthz(now))
	return mux
}

// condition is how a server is.
type condition struct {
	wrong []string // a load balancer takes the server out
	full  bool     // nothing can be written; reads and clones go on
}

// healthz says whether the server is well: 503 if clients must go elsewhere. A full disk is no
// reason for that, since reads go on; with ?write in the URL it is.
func (d *Daemon) healthz(inspect func() condition) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		now := inspect()
		lines, status := now.wrong, http.StatusServiceUnavailable
		switch {
		case d.draining.Load():
			lines = []string{"draining"}
		case len(now.wrong) > 0:
		case now.full && r.URL.Query().Has("write"):
			lines = []string{"degraded: disk"}
		case now.full:
			lines, status = []string{"degraded: disk"}, http.StatusOK
		default:
			lines, status = []string{"ok"}, http.StatusOK
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	}
}

// hereOnly answers clients on this machine that come without a proxy. The public address must
// not show the server's metrics to everybody.
func hereOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !relay.Direct(r) {
			http.Error(w, "Metrics are for this machine only here. The option metrics-listen serves them on another address.", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// warnOfProxies says once that a proxy on this machine is not trusted: all clients behind it
// count as one.
func (d *Daemon) warnOfProxies(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if relay.ByUntrustedProxy(r, d.cfg.Proxies) {
			d.proxyWarning.Do(func() {
				d.log.Warn("a proxy on this machine passes clients on and is not trusted, so all of them share the limits of one address: set trust-proxy",
					"proxy", r.RemoteAddr)
			})
		}
		h.ServeHTTP(w, r)
	})
}

// answerTime bounds how long a client that wants no git data may take over one request
// and its answer.
const answerTime = time.Minute

// inTime ends a connection whose client does not send the announced body, or does not take its
// answer. Git's bodies and answers are large: package githttp bounds how long each of them may
// stall, in place of these bounds. A websocket takes its connection out of them.
func inTime(h http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		bound := func() {
			until := time.Now().Add(limit)
			_ = rc.SetWriteDeadline(until)
			// The server reads the rest of a body before it answers. Without a body it reads on
			// during the answer, to learn whether the client goes away.
			if r.Body != http.NoBody {
				_ = rc.SetReadDeadline(until)
			}
		}
		bound()
		if githttp.IsGit("/", repos.IsPath, r) {
			_ = rc.SetWriteDeadline(time.Time{})
			defer bound() // for what the server itself sends at the end
		}
		h.ServeHTTP(w, r)
	})
}
