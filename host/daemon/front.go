package daemon

import (
	"io"
	"net/http"
	"strings"
	"time"

	"talon/host/githttp"
	"talon/host/metrics"
)

// front serves what is neither a websocket nor NIP-11 on the relay's own address:
// git, what operators look at unless that has an address of its own, and pages.
func (d *Daemon) front(git *githttp.Handler, pages http.Handler, registry *metrics.Registry, health func() []string) http.Handler {
	operators := http.NewServeMux()
	if d.cfg.MetricsListen == "" {
		operators = d.operators(registry, health)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A mux would clean the paths of repositories.
		if githttp.IsGit("/", r) {
			git.ServeHTTP(w, r)
			return
		}
		if _, pattern := operators.Handler(r); pattern != "" {
			githttp.CORS(w.Header())
			operators.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// operators serves what operators look at.
func (d *Daemon) operators(registry *metrics.Registry, health func() []string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", registry.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if wrong := health(); len(wrong) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Join(wrong, "\n")+"\n")
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// answerTime bounds how long a client that wants no git data may take over one request
// and its answer.
const answerTime = time.Minute

// inTime lets no client hold a connection that does not send what it announced, or does
// not take its answer. Git's bodies and answers are large: package githttp bounds how
// long each of them may stall, over what is set here. A websocket takes its connection
// out of these bounds.
func inTime(h http.Handler, most time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		bound := func() {
			until := time.Now().Add(most)
			_ = rc.SetWriteDeadline(until)
			// The server reads what is left of a body before it answers. Without a body it
			// reads on meanwhile, to learn whether the client goes away.
			if r.Body != http.NoBody {
				_ = rc.SetReadDeadline(until)
			}
		}
		bound()
		if githttp.IsGit("/", r) {
			_ = rc.SetWriteDeadline(time.Time{})
			defer bound() // for what the server itself sends at the end
		}
		h.ServeHTTP(w, r)
	})
}
