// Package githttp serves repositories over git's smart HTTP protocol, versions 0, 1
// and 2: fetches by git upload-pack, and pushes by its own receive-pack, with git
// index-pack. [Repositories] finds the repository of a path, and [Pushes] authorises
// pushes.
//
// Invariants:
//
//  1. Bodies are streamed both ways: memory does not depend on a pack's size.
//
//  2. The commands of a push are parsed, bounded and checked before git sees a byte.
//     A push of no commands is no push.
//
//  3. Nobody holds the lock of a repository while a client sends or takes something.
//     Without the lock, a push is authorised, received into a quarantine and checked.
//     Under the lock, it is confirmed, its objects move and its refs change. Nothing
//     waits for a client in that time.
//
//  4. The refs of a push change all or not at all. They do not change if one of them
//     differs from the old value that the client sent, unless it already has the new one.
//
//  5. Nothing waits for a client for ever: it must move 64 KiB in [Limits].Stall, and
//     end in Limits.Whole. Waiting lines are bounded, and each network has a share of
//     them. A request gets a place only when it is here: all of a fetch, and the commands of
//     a push that is authorised. A request that waits for its client gives its slot to others
//     who wait ([gitrepo.Scheduler]). Git may work on for Limits.GitTime.
//
//  6. If a client goes away, its git process ends, and nothing of its push stays. A push
//     that has arrived completely is finished.
//
//  7. A refusal is in git's protocol with HTTP status 200, since git shows its user
//     nothing else. For a push it is in the report, with a line for each ref, in the side
//     band that the client reads.
//
//  8. Any web page may read each answer (CORS).
//
//  9. A path is split first, and then percent-decoded, once. A part that then has a
//     slash, is empty, or is . or .. is found nowhere.
//
//  10. A fetch gets only objects that the repository's own refs reach, in every version of
//     the protocol, although repositories share objects.
//
// Pushes of shallow clones are taken if nothing is missing here. Push options are taken and
// have no effect, and the answer says so. Push certificates and version 2 of reports are
// not offered.
//
// With [Config].Plain, git receive-pack answers pushes. Git's rules then replace 2, 3, 4 and
// 6, and the texts of 7 are git's.
//
// The package writes to a repository only through [gitrepo.Incoming] and git.
package githttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/bound"
	"talon/host/contain"
	"talon/host/gitrepo"
)

// Use is the purpose of a request.
type Use uint8

const (
	Fetch   Use = iota // read it
	Prepare            // read its refs, in order to push
	PushTo             // change it
)

// Repositories finds the repository of a path. Find may be called by many goroutines.
type Repositories interface {
	// Find returns the repository of a path, given as its decoded parts (see Decode).
	// gitrepo.ErrNotFound becomes status 404, and a *Refusal is sent to git. For PushTo
	// it may return a repository that is not there yet, which Authorize makes.
	Find(ctx context.Context, parts []string, use Use) (*gitrepo.Repo, error)
}

// Push is a push that waits to be authorised.
type Push struct {
	Client  host.Client
	Parts   []string // of the path
	Repo    *gitrepo.Repo
	Updates []host.RefUpdate // at least one; names and ids are checked, and no name is there twice
	Bytes   int64            // of the request's body as it is sent; 0 if the client does not say
	Early   bool             // set by Authorize: no ref is said by an event that is here, and the pack may inflate to less

	// Author is set by Authorize: who asked for the push, an npub, or [OwnerOf] the repository.
	// Its hourly part pays for what git appends to a thin pack. It is empty if nobody did, as
	// when all refs are in place: then git may append little.
	Author string

	// Room is set by Authorize: how many bytes the push may add. Nil is no limit.
	Room *Room

	Stored  int64            // for Confirm: bytes that its pack takes on disk
	Charged bool             // set by Confirm: these bytes count for the repository already
	Changed bool             // for PushDone: the refs are as the push says, or may be after a failure
	inPlace []host.RefUpdate // those that changed nothing
	Removes []string         // set by Confirm: refs that go with the push though it does not name them
	Note    string           // of Confirm and PushDone: message to the client with its success; empty for none
}

// Room is how many bytes a push may add to the disk.
type Room struct {
	Bytes  int64
	Reason string           // for a push that adds more
	Limits host.UsageLimits // from which it follows

	// Reported says that the answer reports how much of the limits is used: a maintainer pushes.
	Reported bool
}

// refusal returns why a push that adds this many bytes is refused, nil if it is not.
func (r *Room) refusal(bytes int64) error {
	if r == nil || bytes <= r.Bytes {
		return nil
	}
	return &Refusal{Reason: r.Reason, unpack: true}
}

// Pushes decides on pushes. A *Refusal that it returns is sent to the client, and
// gitrepo.ErrNotFound becomes status 404.
type Pushes interface {
	// Authorize is called when the commands of a push are here, before its pack is
	// read. Nobody holds the lock of the repository. It must check the name of each
	// ref: see gitrepo.IsPushable.
	Authorize(ctx context.Context, p *Push) error

	// Confirm is called when all of the push is here and whole, under the lock of the
	// repository, which is held until its refs have changed: the facts that Authorize saw
	// may have changed.
	Confirm(ctx context.Context, p *Push) error

	// PushDone is called once for each push that Authorize allowed, when it has ended, for
	// better or worse: after the lock was given back and before the client knows. Its context
	// does not end when the client goes away.
	PushDone(ctx context.Context, p *Push)
}

// Config configures a Handler.
type Config struct {
	Prefix string // of all paths; starts and ends with a slash
	Limits Limits
	Log    *slog.Logger

	// Scheduler gives slots to git processes: that of the repositories. Nil makes one with
	// the default options.
	Scheduler *gitrepo.Scheduler

	// Plain has git receive-pack answer pushes. Pushes must still be set, but is never asked.
	// Repositories are of a gitrepo.Folder with a plain git.
	Plain bool

	// Client returns who sent a request; nil takes the address of the connection.
	Client func(*http.Request) host.Client

	// Holder maps a client to the holder that shared limits count it as, by its address and the
	// keys that it has proven. Nil means that no client is known.
	Holder func(addr netip.Addr, proven []host.PubKey) bound.Holder

	// Panics is around the goroutines of a request; it may be nil. The caller contains what
	// ServeHTTP itself panics with.
	Panics *contain.Guard

	// Full reports whether the disk has no room for pushes; nil says that it has.
	Full func() bool

	// IsPath reports whether the decoded parts of a path may name a repository. Git's endpoints
	// are directly below such a path only. Nil says that each path may.
	IsPath func(parts []string) bool

	// NotFound answers requests that are not for git, or for no repository. CORS
	// headers are set already. Nil answers with a line of text.
	NotFound http.Handler
}

func (c *Config) setDefaults() {
	if c.Client == nil {
		c.Client = clientOf
	}
	if c.Full == nil {
		c.Full = func() bool { return false }
	}
	if c.NotFound == nil {
		c.NotFound = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusNotFound, "There is no such repository here.")
		})
	}
}

func (c *Config) check() error {
	if err := c.Limits.check(); err != nil {
		return err
	}
	if !strings.HasPrefix(c.Prefix, "/") || !strings.HasSuffix(c.Prefix, "/") {
		return fmt.Errorf("set up git over HTTP: the prefix %q does not start and end with a slash", c.Prefix)
	}
	return nil
}

// Handler serves git's smart HTTP protocol. Mount it where nothing cleans or
// redirects paths before it: http.ServeMux does.
type Handler struct {
	cfg       Config
	limits    Limits
	repos     Repositories
	pushes    Pushes     // nil: nobody may push
	bodies    *bound.Pot // bytes of bodies in memory
	opening   *bound.Pot // pushes that are not authorised yet
	metrics   *metrics
	cpu       *bound.Rate // milliseconds of git, for pushes
	walks     *bound.Rate // milliseconds of git, to check what fetches want
	disk      *disk
	keepalive time.Duration // after which a client that waits hears something
}

// New returns a handler. Without pushes, every push is refused.
func New(cfg Config, repos Repositories, pushes Pushes) (*Handler, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Scheduler == nil {
		scheduler, err := gitrepo.NewScheduler(gitrepo.DefaultScheduleOptions)
		if err != nil {
			return nil, err
		}
		cfg.Scheduler = scheduler
	}
	l := cfg.Limits
	return &Handler{
		cfg: cfg, limits: l, repos: repos, pushes: pushes, metrics: newMetrics(cfg.Scheduler), keepalive: 5 * time.Second,
		bodies: bound.NewPot(bound.Spec{
			Name: "requests, commands and lists of refs in memory", Unit: "bytes", Total: l.BodyBytes, Known: bound.KnownPart(l.BodyBytes),
			Yields: "the stalest of the heaviest network ends",
		}),
		opening: bound.NewPot(bound.Spec{
			Name: "pushes that are not authorised yet", Unit: "pushes", Total: int64(l.Opening), Known: bound.KnownPart(int64(l.Opening)),
			Yields: "the stalest of the heaviest network ends",
		}),
		cpu: bound.NewRate(bound.Spec{
			Name: "processor time of pushes", Unit: "milliseconds an hour", Network: l.CPU.Milliseconds(),
			Yields: "the network that is over its share waits",
		}, time.Now),
		walks: bound.NewRate(bound.Spec{
			Name: "processor time to check what fetches want", Unit: "milliseconds an hour", Network: l.Walk.Milliseconds(),
			Yields: "the network that is over its share waits; the tips of refs need no check",
		}, time.Now),
		disk: newDisk(&l),
	}, nil
}

// Bounds returns the rows of the table of bounds, with those of the scheduler.
func (h *Handler) Bounds() []bound.Spec {
	rows := append(h.cfg.Scheduler.Bounds(), h.bodies.Spec(), h.opening.Spec(), h.cpu.Spec(), h.walks.Spec())
	return append(rows, h.disk.bounds()...)
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
	parts, end, ok := split(h.cfg.Prefix, h.cfg.IsPath, r.URL.EscapedPath())
	switch {
	case !ok:
		h.cfg.NotFound.ServeHTTP(w, r)
		return
	case end == lfs:
		noLFS(w)
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
	w.Header().Set("Retry-After", strconv.Itoa(int(retryTime.Seconds())))
}

// retryTime is when a client may come again that finds no place.
const retryTime = 30 * time.Second

// holder returns who takes a part of the bounds for a client.
func (h *Handler) holder(c host.Client) bound.Holder {
	if h.cfg.Holder != nil {
		return h.cfg.Holder(c.Addr, c.Authed)
	}
	return bound.Holder{Addr: c.Addr}
}

// startTask waits for a slot of a class. It answers the request if there is none. The task
// must be ended.
func (h *Handler) startTask(ctx context.Context, w http.ResponseWriter, r *http.Request, class gitrepo.Class) (t *gitrepo.Task, got result, ok bool) {
	t, err := h.cfg.Scheduler.Reserve(ctx, class, h.holder(h.cfg.Client(r)))
	if err != nil {
		return nil, h.unavailable(w), false
	}
	if err := t.Start(); err == nil {
		return t, resultOK, true
	}
	t.End()
	if r.Context().Err() != nil {
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

// failed answers a request that failed: its repository was not found, or it is no fault of
// the client.
func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) result {
	if h.missing(w, r, err) {
		return resultNotFound
	}
	return h.internal(w, r, err)
}

// internal answers a request that failed by no fault of the client. A client that has gone away
// is no failure, and hears nothing.
func (h *Handler) internal(w http.ResponseWriter, r *http.Request, err error) result {
	if r.Context().Err() != nil {
		h.cfg.Log.Debug("a client went away", "path", r.URL.Path, "err", err)
		return resultCutOff
	}
	h.fail(r, err)
	if errors.Is(err, host.ErrAway) {
		h.retryLater(w)
		writeText(w, http.StatusServiceUnavailable, "The server's database cannot be reached now. Try again in a moment.")
		return resultFailed
	}
	writeText(w, http.StatusInternalServerError, "The server failed. Its log says why.")
	return resultFailed
}

func (h *Handler) fail(r *http.Request, err error) {
	h.cfg.Log.Error("git request failed", "path", r.URL.Path, "err", err)
}

// endpoint is what a URL below a repository means.
type endpoint uint8

const (
	infoRefs endpoint = iota
	uploadPack
	receivePack
	lfs // anything of Git LFS
)

// maxParts bounds the depth of a path.
const maxParts = 32

// split finds the repository and the endpoint in the path of a request. It reports
// false if the path is none of git's smart protocol, or isPath refuses that of the repository.
func split(prefix string, isPath func(parts []string) bool, escaped string) (parts []string, end endpoint, ok bool) {
	defer func() { ok = ok && (isPath == nil || isPath(parts)) }()
	rest, ok := strings.CutPrefix(escaped, prefix)
	if !ok {
		return nil, 0, false
	}
	if i := strings.Index(rest+"/", lfsPath); i >= 0 {
		parts, ok = Decode(rest[:i])
		return parts, lfs, ok
	}
	switch {
	case strings.HasSuffix(rest, "/info/refs"):
		rest, end = strings.TrimSuffix(rest, "/info/refs"), infoRefs
	case strings.HasSuffix(rest, "/git-upload-pack"):
		rest, end = strings.TrimSuffix(rest, "/git-upload-pack"), uploadPack
	case strings.HasSuffix(rest, "/git-receive-pack"):
		rest, end = strings.TrimSuffix(rest, "/git-receive-pack"), receivePack
	default:
		return nil, 0, false
	}
	parts, ok = Decode(rest)
	return parts, end, ok
}

// Decode splits a path that is still percent-encoded, without a slash at its start,
// and decodes its parts. It reports false if one of them, decoded, is empty, is . or
// .., is not UTF-8, or has a slash, a backslash or a control character.
func Decode(escaped string) (parts []string, ok bool) {
	if strings.Count(escaped, "/") >= maxParts {
		return nil, false
	}
	for part := range strings.SplitSeq(escaped, "/") {
		part, err := url.PathUnescape(part)
		if err != nil || part == "" || part == "." || part == ".." || !utf8.ValidString(part) ||
			strings.ContainsAny(part, `/\`) || strings.ContainsFunc(part, unicode.IsControl) {
			return nil, false
		}
		parts = append(parts, part)
	}
	return parts, true
}

// IsGit reports whether a request is for git and not for a page: it asks for one of
// git's endpoints below a path that may name a repository (see [Config.IsPath]). A server that
// has pages as well asks it first.
func IsGit(prefix string, isPath func(parts []string) bool, r *http.Request) bool {
	_, _, ok := split(prefix, isPath, r.URL.EscapedPath())
	return ok
}

// CORS sets the headers that let any web page use what is answered (GRASP-01).
func CORS(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, POST, HEAD, OPTIONS")
	h.Set("Access-Control-Allow-Headers",
		"Content-Type, Authorization, Git-Protocol, Accept, Content-Encoding, X-Requested-With")
	h.Set("Access-Control-Expose-Headers", "Retry-After")
	h.Set("Access-Control-Max-Age", "86400") // preflights, in which all of this is as long as Talon is
}

// result is how a request ended; it is a label.
type result uint8

const (
	resultOK result = iota
	resultRefused
	resultNotFound
	resultMalformed
	resultBusy
	resultCutOff
	resultFailed
	results
)

func (r result) String() string {
	return [results]string{"ok", "refused", "not-found", "malformed", "busy", "cut-off", "failed"}[r]
}

// verb is what a request asks for; it is a label.
type verb uint8

const (
	verbRefs verb = iota
	verbFetch
	verbPush
	verbs
)

func (v verb) String() string { return [verbs]string{"info-refs", "fetch", "push"}[v] }

type metrics struct {
	all            []prometheus.Collector
	requests       [verbs][results]prometheus.Counter
	seconds        [verbs]prometheus.Observer
	running        [verbs]prometheus.Gauge
	lockSeconds    prometheus.Observer
	cpuSeconds     prometheus.Observer
	received, sent prometheus.Counter
}

// ofScheduler returns the metrics of a scheduler.
func ofScheduler(s *gitrepo.Scheduler) []prometheus.Collector {
	list := []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "talon_git_paused", Help: "Git processes that others have taken the slot of.",
		}, func() float64 { return float64(s.Paused()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "talon_git_displaced_total", Help: "Git requests that stood still and ended because others waited.",
		}, func() float64 { return float64(s.Displaced()) }),
	}
	for c := range gitrepo.Classes {
		labels := prometheus.Labels{"class": c.String()}
		list = append(list, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "talon_git_waiting", Help: "Git requests that wait for a slot, or for their client without one.", ConstLabels: labels,
		}, func() float64 { return float64(s.Load(c).Waiting) }))
	}
	return list
}

func newMetrics(scheduler *gitrepo.Scheduler) *metrics {
	m := new(metrics)
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "talon_git_requests_total", Help: "Answered requests of git clients, by service and outcome.",
	}, []string{"verb", "result"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "talon_git_request_seconds", Help: "From a request's headers to the end of its answer.",
		Buckets: prometheus.ExponentialBuckets(0.002, 4, 10),
	}, []string{"verb"})
	running := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "talon_git_running", Help: "Git processes that work for a client now.",
	}, []string{"verb"})
	lock := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "talon_git_lock_wait_seconds", Help: "How long pushes waited for the lock of their repository.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 8, 8),
	})
	cpu := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "talon_git_push_cpu_seconds", Help: "Processor time that git and the scan of its pack took for a push.",
		Buckets: prometheus.ExponentialBuckets(0.01, 8, 7),
	})
	received := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "talon_git_received_bytes_total", Help: "Bytes of the bodies of requests, as they came over the wire.",
	})
	sent := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "talon_git_sent_bytes_total", Help: "Bytes of the bodies of answers.",
	})
	m.lockSeconds, m.cpuSeconds, m.received, m.sent = lock, cpu, received, sent
	for v := range verbs {
		m.seconds[v] = seconds.WithLabelValues(v.String())
		m.running[v] = running.WithLabelValues(v.String())
		for r := range results {
			m.requests[v][r] = requests.WithLabelValues(v.String(), r.String())
		}
	}
	m.all = append(ofScheduler(scheduler), requests, seconds, running, lock, cpu, received, sent)
	return m
}
