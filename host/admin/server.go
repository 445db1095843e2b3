// Package admin serves the operator's commands to a running relay: HTTP with JSON over a
// unix socket. [Serve] is the server's side, [Client] the other.
//
// Invariants:
//
//  1. Only the user that the server runs as, and root, can use it. The socket is
//     0600 in a folder of 0700 that belongs to the server's user, and the kernel
//     says who the peer is.
//  2. A socket on which a server listens is never taken away. One that a dead
//     server left is replaced.
//  3. A path may be as long as the file system allows: the socket is reached
//     through its opened folder, since its own address holds 108 bytes only.
//  4. Every request is bounded in bytes and in time, and one change runs at a time.
//
// The package changes nothing itself; [Plugins], [Hunt], [Backups] and [Moderator] do.
package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"talon/host"
	"talon/host/config"
	"talon/host/contain"
	"talon/host/plugin"
	"talon/host/plugin/sidecar"
)

// Plugins lets an operator see and change the plugins. Errors are for the operator; those
// of a change are [plugin.ErrUnknown], [plugin.ErrRefused], or the host's.
type Plugins interface {
	List() []plugin.Status
	Disagreements(name string, limit int) []plugin.Disagreement
	Why(event host.ID) (plugin.Why, bool)
	Swap(ctx context.Context, name string, wasm, signature []byte) (plugin.Status, error)
	Rollback(ctx context.Context, name string, steps int) (plugin.Status, error)
	SetMode(ctx context.Context, name string, mode sidecar.Mode) (plugin.Status, error)
	Set(ctx context.Context, name string, list []sidecar.Assignment) (plugin.Status, error)
	Record(ctx context.Context, o plugin.Recording, write func(lines []byte) error) (plugin.Recorded, error)
}

// Bounds of a request.
const (
	MaxModule = 32 << 20 // bytes of a module

	MaxSignature = 8 << 10 // bytes of a signature in a swap

	maxJSON       = 1 << 20
	maxHeader     = 16 << 10
	maxListed     = 1000 // disagreements of one answer
	defaultListed = 20

	headerTime = 10 * time.Second
	readTime   = time.Minute
	changeTime = 2 * time.Minute // compiling takes a while
	writeTime  = readTime + changeTime + 10*time.Second
	stopTime   = 5 * time.Second
)

// The paths. Names are values of the query, where nothing is special in them.
const (
	pathPlugins       = "/plugins"       // GET
	pathDisagreements = "/disagreements" // GET, plugin and limit
	pathWhy           = "/why"           // GET, event
	pathSwap          = "/swap"          // POST a module, plugin; the header may have its signature
	pathRollback      = "/rollback"      // POST a rollback
	pathMode          = "/mode"          // POST a mode
	pathSet           = "/set"           // POST a set
)

// headerSignature is the header of a swap that has the module's signature, in base64.
const headerSignature = "Talon-Signature"

type rollback struct {
	Plugin string `json:"plugin"`
	Steps  int    `json:"steps"`
}

type mode struct {
	Plugin string       `json:"plugin"`
	Mode   sidecar.Mode `json:"mode"`
}

type set struct {
	Plugin string               `json:"plugin"`
	Set    []sidecar.Assignment `json:"set"`
}

// failure is the body of every answer that is not 200.
type failure struct {
	Error string `json:"error"`
}

// API is what operators see and change.
type API struct {
	Plugins Plugins
	Hunt    Hunt  // nil if nothing is hunted for
	Sync    Sync  // nil if no relay is followed
	Nodes   Nodes // [Here] if this process is the only one of the relay
	Backups Backups

	Moderator Moderator

	Addresses func(limit int) []AddressUsage  // from which most bytes of events were accepted today
	Top       func(limit int) Top             // what this node is busy with
	Reload    func() ([]config.Change, error) // reads the configuration again

	Panics *contain.Guard // around each request; may be nil
}

// Serve answers operators until ctx ends, and closes the listener. It then cancels a
// change that is under way.
func Serve(ctx context.Context, l net.Listener, api API, log *slog.Logger) error {
	h := &handler{API: api, log: log, changing: make(chan struct{}, 1)}
	s := &http.Server{
		Handler:           api.Panics.Handler(h.routes()),
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       readTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if s.Shutdown(closing) != nil {
			_ = s.Close() // it has been given its time
		}
	})
	err := s.Serve(&guard{Listener: l, trusted: ourselves, log: log})
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve the admin socket: %w", errors.Join(err, l.Close()))
}

type handler struct {
	API
	log      *slog.Logger
	changing chan struct{} // holds a value while a change is under way
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPlugins, answerBy(func(*http.Request) (any, error) { return h.Plugins.List(), nil }))
	mux.HandleFunc("GET "+pathDisagreements, answerBy(h.disagreements))
	mux.HandleFunc("GET "+pathWhy, answerBy(h.why))
	mux.HandleFunc("POST "+pathSwap, h.change("swap", h.swap))
	mux.HandleFunc("POST "+pathRollback, h.change("rollback", h.rollback))
	mux.HandleFunc("POST "+pathMode, h.change("mode", h.mode))
	mux.HandleFunc("POST "+pathSet, h.change("set", h.set))
	mux.HandleFunc("GET "+pathRecord, h.record)
	mux.HandleFunc("POST "+pathBackup, h.backup)
	mux.HandleFunc("POST "+pathModerate, h.moderate)
	mux.HandleFunc("GET "+pathQueue, answerBy(h.queue))
	mux.HandleFunc("GET "+pathAddresses, answerBy(h.addresses))
	mux.HandleFunc("GET "+pathTop, answerBy(h.top))
	mux.HandleFunc("POST "+pathReload, answerBy(h.reload))
	for _, r := range h.ofRoles() {
		mux.HandleFunc(r.pattern, h.whereRole(r))
	}
	mux.HandleFunc("/", unknownPath)
	return mux
}

func unknownPath(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusNotFound, failure{fmt.Sprintf("this server does not know %s %.80q", r.Method, r.URL.Path)})
}

// answerBy answers with what do returns.
func answerBy(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := do(r)
		if err != nil {
			answer(w, statusOf(err), failure{err.Error()})
			return
		}
		answer(w, http.StatusOK, v)
	}
}

// problem is an error with the status of its answer.
type problem struct {
	status int
	error
}

// limitOf returns the limit that a request gives, preset if it gives none, at most maximum.
func limitOf(r *http.Request, preset, maximum int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return preset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, problem{http.StatusBadRequest, fmt.Errorf("limit %.20q is wrong: want a number from 1", text)}
	}
	return min(n, maximum), nil
}

func (h *handler) disagreements(r *http.Request) (any, error) {
	limit, err := limitOf(r, defaultListed, maxListed)
	if err != nil {
		return nil, err
	}
	// Only a name that exists is looked up, so that nothing is kept for others.
	name := r.URL.Query().Get("plugin")
	for _, s := range h.Plugins.List() {
		if s.Name == name {
			return h.Plugins.Disagreements(name, limit), nil
		}
	}
	return nil, fmt.Errorf("%w: %.80q", plugin.ErrUnknown, name)
}

func (h *handler) why(r *http.Request) (any, error) {
	var id host.ID
	if !host.ParseHex(id[:], r.URL.Query().Get("event")) {
		return nil, problem{http.StatusBadRequest, errors.New("the event is wrong: want its id, 64 lower-case hex digits")}
	}
	why, ok := h.Plugins.Why(id)
	if !ok {
		return nil, problem{http.StatusNotFound, fmt.Errorf("no decision about event %s is remembered", id)}
	}
	return why, nil
}

// change wraps what changes a plugin: one runs at a time, and it is logged.
func (h *handler) change(what string, do func(context.Context, *http.Request) (plugin.Status, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), changeTime)
		defer cancel()
		select {
		case h.changing <- struct{}{}:
			defer func() { <-h.changing }()
		case <-ctx.Done():
			answer(w, http.StatusServiceUnavailable, failure{"another change is under way, try again later"})
			return
		}
		status, err := do(ctx, r)
		if err != nil {
			h.log.Warn("the operator's change was not made", "change", what, "err", err)
			answer(w, statusOf(err), failure{err.Error()})
			return
		}
		h.log.Info("the operator changed a plugin", "change", what, "plugin", status.Name, "mode", status.Mode)
		answer(w, http.StatusOK, status)
	}
}

func (h *handler) swap(ctx context.Context, r *http.Request) (plugin.Status, error) {
	wasm, err := body(r, MaxModule)
	if err != nil {
		return plugin.Status{}, err
	}
	var signature []byte
	if text := r.Header.Get(headerSignature); text != "" {
		if signature, err = base64.StdEncoding.DecodeString(text); err != nil {
			return plugin.Status{}, fmt.Errorf("%w: the signature is not in base64", errRequest)
		}
	}
	return h.Plugins.Swap(ctx, r.URL.Query().Get("plugin"), wasm, signature)
}

func (h *handler) rollback(ctx context.Context, r *http.Request) (plugin.Status, error) {
	ask := rollback{Steps: 1}
	if err := parse(r, &ask); err != nil {
		return plugin.Status{}, err
	}
	return h.Plugins.Rollback(ctx, ask.Plugin, ask.Steps)
}

func (h *handler) mode(ctx context.Context, r *http.Request) (plugin.Status, error) {
	var ask mode
	if err := parse(r, &ask); err != nil {
		return plugin.Status{}, err
	}
	if ask.Mode == "" {
		return plugin.Status{}, fmt.Errorf("%w: the mode is missing", errRequest)
	}
	return h.Plugins.SetMode(ctx, ask.Plugin, ask.Mode)
}

func (h *handler) set(ctx context.Context, r *http.Request) (plugin.Status, error) {
	var ask set
	if err := parse(r, &ask); err != nil {
		return plugin.Status{}, err
	}
	if len(ask.Set) == 0 {
		return plugin.Status{}, fmt.Errorf("%w: there is nothing to set", errRequest)
	}
	return h.Plugins.Set(ctx, ask.Plugin, ask.Set)
}

var (
	errRequest = errors.New("the request could not be read")
	errTooBig  = errors.New("the request is too big")
)

// maxDrained bounds what is read of a request that is refused.
const maxDrained = 64 << 20

// body reads a request of at most the given number of bytes.
func body(r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		// A client that is still writing would not see the answer.
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
		return nil, fmt.Errorf("%w: want at most %d bytes", errTooBig, limit)
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("%w: want at most %d bytes", errTooBig, limit)
	}
	return text, nil
}

func parse(r *http.Request, v any) error {
	text, err := body(r, maxJSON)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%w: %w", errRequest, err)
	}
	return nil
}

func statusOf(err error) int {
	var p problem
	switch {
	case errors.As(err, &p):
		return p.status
	case errors.Is(err, plugin.ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, plugin.ErrRefused):
		return http.StatusUnprocessableEntity
	case errors.Is(err, errRequest):
		return http.StatusBadRequest
	case errors.Is(err, errTooBig):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, plugin.ErrRecording), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"the answer could not be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who asked may have left
}

// guard lets in only connections of trusted users.
type guard struct {
	net.Listener
	trusted func(uid uint32) bool
	log     *slog.Logger
}

// ourselves reports whether a user is the one that this process runs as, or root.
func ourselves(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

func (g *guard) Accept() (net.Conn, error) {
	for {
		nc, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(nc)
		if err == nil && g.trusted(uid) {
			return nc, nil
		}
		g.log.Warn("refuse a connection to the admin socket", "uid", uid, "err", err)
		_ = nc.Close() // it gets no answer
	}
}

// peer asks the kernel which user opened the other end.
func peer(nc net.Conn) (uint32, error) {
	unix, ok := nc.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := unix.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}
