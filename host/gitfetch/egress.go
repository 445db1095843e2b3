package gitfetch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"talon/host/contain"
	"talon/host/gitfetch/queue"
	"talon/host/gitrepo"
)

const (
	refsPath   = "/info/refs"
	packPath   = "/git-upload-pack"
	refsQuery  = "service=git-upload-pack"
	refsType   = "application/x-git-upload-pack-advertisement"
	packType   = "application/x-git-upload-pack-result"
	askType    = "application/x-git-upload-pack-request"
	maxHops    = 5
	maxRequest = 64 << 20 // bytes that git sends to a server

	// maxExchanges bounds the HTTP requests of one fetch: git asks again and again
	// while it finds out what both sides have, and for parts where some is refused.
	maxExchanges = 128

	// maxKept bounds the advertisement that is kept for git's next request.
	maxKept = 256 << 10
)

// egressProxy is a server on the loopback interface through which git reaches other servers.
// Each request belongs to a session, whose secret is in the URL.
type egressProxy struct {
	addresses Addresses
	limits    Limits
	transport *http.Transport
	server    *http.Server
	listener  net.Listener

	mu       sync.Mutex // guards sessions
	sessions map[string]*session
}

// openEgressProxy starts a proxy. Only who knows the secret of a session gets anything.
func openEgressProxy(a Addresses, g *guard, l Limits, log *slog.Logger, panics *contain.Guard) (*egressProxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for git: %w", err)
	}
	e := newEgressProxy(a, g.dial, l)
	e.listener = listener
	e.server = &http.Server{
		Handler: panics.Handler(e), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { _ = e.server.Serve(listener) }() // until Close
	return e, nil
}

// newEgressProxy returns a proxy that nobody can reach yet.
func newEgressProxy(a Addresses, dial func(ctx context.Context, network, address string) (net.Conn, error), l Limits) *egressProxy {
	return &egressProxy{addresses: a, limits: l, transport: newTransport(dial, l), sessions: make(map[string]*session)}
}

func newTransport(dial func(ctx context.Context, network, address string) (net.Conn, error), l Limits) *http.Transport {
	t := &http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    dialTime,
		ResponseHeaderTimeout:  l.Stall,
		MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        5 * time.Second,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// Close ends all sessions.
func (e *egressProxy) Close() {
	_ = e.server.Close()
	e.transport.CloseIdleConnections()
}

// session is one fetch.
type session struct {
	proxy     *egressProxy
	transport *http.Transport
	secret    string
	domain    string
	ctx       context.Context
	cancel    context.CancelCauseFunc

	exchanges atomic.Int64
	bytes     atomic.Int64
	quota     atomic.Int64 // of bytes, for the fetch under way; 0 is none

	mu    sync.Mutex // guards what follows
	base  *url.URL   // of the repository, after redirects
	kept  []byte     // the advertisement, if it is short
	form  string     // of the protocol that it was asked in
	cause error      // the first thing that went wrong

	scan func() *gitrepo.PackScan // bounds what a pack stands for; nil: nothing does
}

// open begins a session with a URL that ParseURL has returned. Connections are those of the
// transport; nil: the one that sessions share.
func (e *egressProxy) open(ctx context.Context, u queue.URL, own *http.Transport) (*session, error) {
	base, err := url.Parse(u.Text)
	if err != nil {
		return nil, err
	}
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // it does not fail
	s := &session{proxy: e, transport: cmp.Or(own, e.transport), secret: hex.EncodeToString(secret[:]), domain: u.Domain, base: base}
	ctx, stop := context.WithTimeoutCause(ctx, e.limits.Whole, errTime)
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(s.ctx, stop)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions[s.secret] = s
	return s, nil
}

// url is what git is given.
func (s *session) url() string {
	return "http://" + s.proxy.listener.Addr().String() + "/" + s.secret
}

// close ends the session: nothing gets through any more.
func (s *session) close() {
	s.proxy.mu.Lock()
	delete(s.proxy.sessions, s.secret)
	s.proxy.mu.Unlock()
	s.cancel(errClosed)
	if s.transport != s.proxy.transport {
		s.transport.CloseIdleConnections()
	}
}

// Causes of the end of a fetch.
var (
	errTime    = errors.New("it took too long")
	errStalled = errors.New("the server has stopped sending, or sends too slowly")
	errQuiet   = errors.New("the server takes too long to prepare a pack")
	errBytes   = errors.New("the server sends too many bytes")
	errQuota   = errors.New("the server sends more than the owner of the repository has room for here")
	errObjects = errors.New("the server sends too many objects")
	errRefs    = errors.New("the server lists too many refs")
	errTalk    = errors.New("too many requests for one fetch")
	errOthers  = errors.New("it took long, and others wait")
	errClosed  = errors.New("the fetch has ended")
)

// statusError is an answer that is not what git needs.
type statusError struct {
	status     int
	retryAfter int64 // milliseconds
}

func (e *statusError) Error() string {
	if text := http.StatusText(e.status); text != "" {
		return fmt.Sprintf("the server answers %d %s", e.status, text)
	}
	return fmt.Sprintf("the server answers %d", e.status)
}

// movedError is a redirect to another domain.
type movedError struct{ to queue.URL }

func (e *movedError) Error() string { return "the server redirects to " + e.to.Text }

// protocolError is what no git server says.
type protocolError struct{ what string }

func (e *protocolError) Error() string { return e.what }

// fail keeps why the fetch failed, and ends it.
func (s *session) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		if cause := context.Cause(s.ctx); cause != nil {
			err = cause
		}
		s.cause = err
		s.cancel(err) // git may try something else, which is over as well
	}
	return s.cause
}

// failure returns what went wrong, nil if nothing did.
func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil && context.Cause(s.ctx) != nil {
		return context.Cause(s.ctx)
	}
	return s.cause
}

// ServeHTTP answers git.
func (e *egressProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secret, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	e.mu.Lock()
	s := e.sessions[secret]
	e.mu.Unlock()
	if s == nil {
		http.NotFound(w, r)
		return
	}
	var err error
	switch {
	case s.exchanges.Add(1) > maxExchanges:
		err = errTalk
	case r.Method == http.MethodGet && "/"+path == refsPath && r.URL.RawQuery == refsQuery:
		err = s.refs(w, r)
	case r.Method == http.MethodPost && "/"+path == packPath && r.URL.RawQuery == "":
		err = s.pack(w, r)
	default:
		// Git tries the old protocol of plain files.
		http.NotFound(w, r)
		return
	}
	if err != nil {
		if !errors.Is(err, errClosed) || s.ctx.Err() != nil {
			s.fail(err)
		}
		// Headers may be out already: then the connection has to go, or git would take
		// half an answer for a whole one.
		panic(http.ErrAbortHandler)
	}
}

// refs asks for the advertisement, and follows redirects. One fetch of ours may be
// several of git's: the server is asked once, if it can be.
func (s *session) refs(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	base, kept := s.base, s.kept
	if s.form != r.Header.Get("Git-Protocol") {
		kept = nil
	}
	s.mu.Unlock()
	if kept != nil {
		header(w, refsType)
		_, _ = w.Write(kept)
		return nil
	}
	for range maxHops {
		resp, err := s.send(r, http.MethodGet, base, refsPath+"?"+refsQuery, nil)
		if err != nil {
			return err
		}
		if resp.StatusCode >= 300 && resp.StatusCode < 400 {
			_ = resp.Body.Close()
			if base, err = s.follow(base, resp); err != nil {
				return err
			}
			continue
		}
		keep := &keeper{ResponseWriter: w}
		if err := s.pass(keep, resp, refsType); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.base, s.form, s.kept = base, r.Header.Get("Git-Protocol"), keep.whole()
		return nil
	}
	return &protocolError{"the server redirects too often"}
}

// keeper keeps what passes, if it is short.
type keeper struct {
	http.ResponseWriter
	b    []byte
	long bool
}

func (k *keeper) Write(b []byte) (int, error) {
	if k.long = k.long || len(k.b)+len(b) > maxKept; !k.long {
		k.b = append(k.b, b...)
	}
	return k.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// whole returns what has passed, nil if it was too long.
func (k *keeper) whole() []byte {
	if k.long {
		return nil
	}
	return k.b
}

func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache")
}

// follow returns where a redirect leads. It must lead to the same file of another
// repository, as git itself wants it.
func (s *session) follow(from *url.URL, resp *http.Response) (*url.URL, error) {
	to, err := resp.Location() // seen from the file that was asked for
	if err != nil {
		return nil, &protocolError{"the server redirects to nowhere"}
	}
	if from.Scheme == "https" && to.Scheme == "http" {
		return nil, &protocolError{"the server redirects from https to http"}
	}
	path, ok := strings.CutSuffix(to.Path, refsPath)
	if !ok || to.RawQuery != refsQuery {
		return nil, &protocolError{"the server redirects to something else than a repository"}
	}
	bare := *to
	bare.Path, bare.RawPath, bare.RawQuery = path, strings.TrimSuffix(to.RawPath, refsPath), ""
	target, err := s.proxy.addresses.ParseURL(bare.String())
	if err != nil {
		return nil, &refusedError{fmt.Errorf("the server redirects to where the hunt does not go: %w", err)}
	}
	if target.Domain != s.domain {
		return nil, &movedError{target}
	}
	return url.Parse(target.Text)
}

// refusedError is where the hunt does not go.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// pack asks for objects.
func (s *session) pack(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	base := s.base
	s.mu.Unlock()
	resp, err := s.send(r, http.MethodPost, base, packPath, http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return err
	}
	return s.pass(w, resp, packType)
}

// send asks the server.
func (s *session) send(r *http.Request, method string, base *url.URL, path string, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(s.ctx, method, base.String()+path, body)
	if err != nil {
		return nil, &protocolError{"the URL cannot be asked"}
	}
	request.Header.Set("User-Agent", r.UserAgent())
	if v := r.Header.Get("Git-Protocol"); v != "" {
		request.Header.Set("Git-Protocol", v)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", askType)
		request.Header.Set("Accept", packType)
		if r.Header.Get("Content-Encoding") == "gzip" {
			request.Header.Set("Content-Encoding", "gzip")
		}
		request.ContentLength = r.ContentLength
	}
	// Only this timer notices a server that does not read the bytes that git sends.
	hang := time.AfterFunc(2*s.proxy.limits.Stall, func() { s.cancel(errStalled) })
	defer hang.Stop()
	return s.transport.RoundTrip(request)
}

// retryAfter reads what a server asks for, in milliseconds: seconds, or a date.
func retryAfter(text string, now time.Time) int64 {
	const maximum = 366 * 24 * time.Hour
	if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
		return min(max(n, 0), int64(maximum/time.Second)) * 1000
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maximum).Milliseconds()
	}
	return 0
}
