package githttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/gitrepo"
)

// Use is what a request wants with a repository.
type Use uint8

const (
	Fetch   Use = iota // read it
	Prepare            // read its refs, in order to push
	PushTo             // change it
)

// Repositories says which repository a path names. Find may be called by many
// goroutines.
type Repositories interface {
	// Find returns the repository of a path, given as its decoded parts (see Decode).
	// gitrepo.ErrNotFound becomes status 404, and a *Refusal is told to git. For
	// PushTo it may return a repository that is not there yet, which Authorize makes.
	Find(ctx context.Context, parts []string, use Use) (*gitrepo.Repo, error)
}

// Push is a push that waits to be authorised.
type Push struct {
	Client  host.Client
	Parts   []string // of the path
	Repo    *gitrepo.Repo
	Updates []host.RefUpdate // at least one; names and ids are checked, and no name is there twice
	Bytes   int64            // of the request's body as it is sent; 0 if the client does not say
	Changed bool             // for Landed: the refs are as the push says, or may be after a failure
	inPlace []host.RefUpdate // those that changed nothing
	Note    string           // of Confirm and Landed: what the client is told beside its success; empty for nothing
}

// Pushes decides on pushes. A *Refusal that it returns is told to the client, and
// gitrepo.ErrNotFound becomes status 404.
type Pushes interface {
	// Authorize is called when the commands of a push are here, before its pack is
	// read. Nobody holds the lock of the repository. It must check the name of each
	// ref: see gitrepo.IsPushable.
	Authorize(ctx context.Context, p *Push) error

	// Confirm is called when all of the push is here and whole, under the lock of the
	// repository, which is held until its refs have changed: what Authorize was told
	// may not be so any more.
	Confirm(ctx context.Context, p *Push) error

	// Landed is called once for each push that Authorize allowed and whose repository
	// is there, when it has ended, for better or worse: after the lock was given back
	// and before the client knows. Its context does not end when the client goes away.
	Landed(ctx context.Context, p *Push)
}

// Config is what a Handler is made from.
type Config struct {
	Prefix string // of all paths; starts and ends with a slash
	Limits Limits
	Log    *slog.Logger

	// Plain has git receive-pack answer pushes, which must then not be nil and are
	// asked nothing: repositories are of a gitrepo.Folder with a plain git.
	Plain bool

	// Client says who sent a request; nil takes the address of the connection.
	Client func(*http.Request) host.Client

	// NotFound answers requests that are not for git, or for no repository. CORS
	// headers are set already. Nil answers with a line of text.
	NotFound http.Handler
}

// Handler serves git's smart HTTP protocol. Mount it where nothing cleans or
// redirects paths before it: http.ServeMux does.
type Handler struct {
	cfg       Config
	limits    Limits
	repos     Repositories
	pushes    Pushes // nil: nobody may push
	fetches   *limiter
	writes    *limiter
	metrics   *metrics
	cpu       *Budget       // seconds of git, for pushes
	keepalive time.Duration // after which a client that waits hears something
}

// New returns a handler. Without pushes, every push is refused.
func New(cfg Config, repos Repositories, pushes Pushes) (*Handler, error) {
	if err := cfg.Limits.check(); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(cfg.Prefix, "/") || !strings.HasSuffix(cfg.Prefix, "/") {
		return nil, fmt.Errorf("set up git over HTTP: the prefix %q does not start and end with a slash", cfg.Prefix)
	}
	if cfg.Client == nil {
		cfg.Client = clientOf
	}
	if cfg.NotFound == nil {
		cfg.NotFound = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusNotFound, "There is no such repository here.")
		})
	}
	l := cfg.Limits
	return &Handler{
		cfg: cfg, limits: l, repos: repos, pushes: pushes, metrics: newMetrics(), keepalive: 5 * time.Second,
		fetches: newLimiter(l.Fetches, l.FetchQueue, l.QueueTime),
		writes:  newLimiter(l.Pushes, l.PushQueue, l.QueueTime),
		cpu:     NewBudget(l.CPU.Seconds(), time.Now),
	}, nil
}

// Collectors returns the metrics.
func (h *Handler) Collectors() []prometheus.Collector { return h.metrics.all }

func clientOf(r *http.Request) host.Client {
	c := host.Client{UserAgent: r.UserAgent(), Origin: r.Header.Get("Origin"), Path: r.URL.Path}
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.Addr = at.Addr().Unmap()
	}
	return c
}

// writeText answers with a line of text.
func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	CORS(w.Header())
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	parts, end, ok := split(h.cfg.Prefix, r.URL.EscapedPath())
	if !ok {
		h.cfg.NotFound.ServeHTTP(w, r)
		return
	}
	began := time.Now()
	v := [...]verb{infoRefs: verbRefs, uploadPack: verbFetch, receivePack: verbPush}[end]
	var got result
	switch v {
	case verbRefs:
		got = h.serveRefs(w, r, parts)
	case verbFetch:
		got = h.serveFetch(w, r, parts)
	case verbPush:
		got = h.servePush(w, r, parts)
	}
	h.metrics.requests[v][got].Inc()
	h.metrics.seconds[v].Observe(time.Since(began).Seconds())
}

// method refuses other methods than those given.
func method(w http.ResponseWriter, r *http.Request, allowed ...string) bool {
	for _, m := range allowed {
		if r.Method == m {
			return true
		}
	}
	w.Header().Set("Allow", strings.Join(append(allowed, http.MethodOptions), ", "))
	writeText(w, http.StatusMethodNotAllowed, "This address does not take "+oneLine(r.Method)+" requests.")
	return false
}

// unavailable answers a request that cannot be answered now.
func (h *Handler) unavailable(w http.ResponseWriter) result {
	h.retryLater(w)
	writeText(w, http.StatusServiceUnavailable, "Too many others are being served. Try again in a moment.")
	return resultBusy
}

func (h *Handler) retryLater(w http.ResponseWriter) {
	w.Header().Set("Retry-After", strconv.Itoa(max(1, int(h.limits.QueueTime.Seconds()/2))))
}

// network is what a client is counted by.
func (h *Handler) network(r *http.Request) netip.Prefix { return host.NetworkOf(h.cfg.Client(r).Addr) }

// begin waits for a slot of the limiter. It answers the request if there is none.
func (h *Handler) begin(ctx context.Context, w http.ResponseWriter, r *http.Request, g *limiter) (end func(), got result, ok bool) {
	leave, err := g.reserve(h.network(r))
	if err != nil {
		return nil, h.unavailable(w), false
	}
	done, err := g.begin(ctx)
	if err == nil {
		return sync.OnceFunc(func() { done(); leave() }), resultOK, true
	}
	leave()
	if ctx.Err() != nil {
		return nil, resultCutOff, false
	}
	return nil, h.unavailable(w), false
}

// protocolOf reads the version that a client asks for. A header that is not
// understood asks for version 0, as the protocol has it.
func protocolOf(r *http.Request) gitrepo.Protocol {
	var best gitrepo.Protocol
	for i, key := range strings.Split(r.Header.Get("Git-Protocol"), ":") {
		if i == 16 {
			break
		}
		switch key {
		case "version=1":
			best = max(best, 1)
		case "version=2":
			best = max(best, 2)
		}
	}
	return best
}

// head sets the headers of an answer in git's protocol.
func head(w http.ResponseWriter, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	h.Set("Expires", "Fri, 01 Jan 1980 00:00:00 GMT")
	h.Set("Pragma", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
}

// missing answers a request whose repository was not found. It reports false if
// err is something else.
func (h *Handler) missing(w http.ResponseWriter, r *http.Request, err error) bool {
	if !errors.Is(err, gitrepo.ErrNotFound) {
		return false
	}
	h.cfg.NotFound.ServeHTTP(w, r)
	return true
}

// internal answers a request that failed by no fault of the client.
func (h *Handler) internal(w http.ResponseWriter, r *http.Request, err error) result {
	h.fail(r, err)
	writeText(w, http.StatusInternalServerError, "The server failed. Its log says why.")
	return resultFailed
}

func (h *Handler) fail(r *http.Request, err error) {
	h.cfg.Log.Error("git request failed", "path", r.URL.Path, "err", err)
}
