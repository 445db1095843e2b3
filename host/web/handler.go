// Package web serves pages for browsers: what this service is, a page for each
// repository, what is not here. They are made on the server, need no script, and load
// nothing from anywhere.
//
// It reads events and refs, and changes nothing. The rules that say who maintains a
// repository and what is open are those of package sdk/grasp.
//
// Invariants:
//
//  1. Every text of an event is hostile: it is escaped, bounded, and freed of what
//     changes the order or look of the text around it.
//  2. A text becomes a link only if it is an http, an https or a nostr URL.
//  3. What waits in purgatory is not shown. Of a repository that waits, the page says
//     only what its URL says. Held announcements count for who maintains a
//     repository, as they do for a push.
//  4. A page costs a bounded number of bounded reads, whatever is stored. Nobody's
//     events can push those of a maintainer out of what is read.
//  5. Few pages are made concurrently; further requests get status 503.
//  6. No answer says why the server failed: its log does.
package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"talon/host"
	"talon/sdk/grasp"
)

const (
	// maxTurns bounds how many pages are made concurrently.
	maxTurns = 4

	// pageTime bounds how long one takes, its wait for a turn included.
	pageTime = 10 * time.Second

	// freshFor is how long a page may be shown again without asking, in seconds. It is
	// short: who has just pushed wants to see it.
	freshFor = "5"
)

// Handler serves the pages.
type Handler struct {
	cfg       Config
	service   grasp.Service
	read      reader
	git       Repositories
	templates *template.Template
	slots     chan struct{}
}

// errBusy says that there was no turn in time.
var errBusy = errors.New("too many pages are being made")

// page makes the content of a page. It returns the status, the name of the template
// and what the template shows.
type page func(ctx context.Context, r *http.Request) (status int, template string, content any, err error)

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.headers(w.Header())
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	build := h.route(r)
	switch {
	case build == nil:
		h.answer(w, r, http.StatusNotFound, "message", notFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		h.answer(w, r, http.StatusMethodNotAllowed, "message", notAllowed)
	default:
		h.serve(w, r, build)
	}
}

// route returns the page of a path, nil if it has none.
func (h *Handler) route(r *http.Request) page {
	path := r.URL.EscapedPath()
	if path == "/" {
		return h.index
	}
	p, ok := parsePath(path)
	switch {
	case !ok || p.PRs && !h.cfg.PRs:
		return nil
	case p.PRs:
		return h.prs(p.Repo)
	}
	return h.repository(p.Repo)
}

// parsePath takes apart the path of a repository's page: that of the repository,
// with or without .git, with or without a slash behind it.
func parsePath(escaped string) (grasp.Path, bool) {
	escaped = strings.TrimSuffix(escaped, "/")
	p, err := grasp.ParsePath(escaped)
	if err != nil {
		p, err = grasp.ParsePath(escaped + ".git")
	}
	return p, err == nil && p.Rest == ""
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, build page) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	status, template, content, err := h.inTurn(ctx, r, build)
	switch {
	case err == nil:
		h.answer(w, r, status, template, content)
	case r.Context().Err() != nil:
		// Nobody waits for an answer.
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "5")
		h.answer(w, r, http.StatusServiceUnavailable, "message", busy)
	default:
		h.cfg.Log.Error("make a page", "path", r.URL.Path, "err", err)
		h.answer(w, r, http.StatusInternalServerError, "message", failed)
	}
}

// inTurn makes a page when there is a turn for it.
func (h *Handler) inTurn(ctx context.Context, r *http.Request, build page) (int, string, any, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		return build(ctx, r)
	case <-ctx.Done():
		return 0, "", nil, errBusy
	}
}

// headers sets what every answer has.
func (h *Handler) headers(to http.Header) {
	to.Set("Content-Security-Policy", policy)
	to.Set("Cross-Origin-Opener-Policy", "same-origin")
	to.Set("Referrer-Policy", "no-referrer")
	to.Set("X-Content-Type-Options", "nosniff")
	to.Set("X-Frame-Options", "DENY")
	// The relay answers the same URL with NIP-11 if it is asked to.
	to.Add("Vary", "Accept")
}

// answer sends a page, or 304 if the browser has it already.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, status int, template string, content any) {
	var body bytes.Buffer
	err := h.templates.ExecuteTemplate(&body, template, frame{
		Site: h.service.String(), Style: style, Content: content,
	})
	if err != nil {
		h.cfg.Log.Error("fill a page", "path", r.URL.Path, "template", template, "err", err)
		http.Error(w, failed.Title, http.StatusInternalServerError)
		return
	}
	to := w.Header()
	to.Set("Content-Type", "text/html; charset=utf-8")
	if status >= http.StatusInternalServerError {
		to.Set("Cache-Control", "no-store")
	} else {
		to.Set("Cache-Control", "public, max-age="+freshFor)
	}
	if status == http.StatusOK {
		sum := sha256.Sum256(body.Bytes())
		tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
		to.Set("ETag", tag)
		if known := r.Header.Get("If-None-Match"); known == "*" || strings.Contains(known, tag) {
			to.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	to.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body.Bytes()); err != nil {
		h.cfg.Log.Debug("send a page", "path", r.URL.Path, "err", err)
	}
}

// client is a git client on the web that opens NIP-19 codes.
const client = "https://gitworkshop.dev/"

// serviceURLs are the URLs under which the service is reached.
type serviceURLs struct {
	scheme  string // http or https
	service grasp.Service
}

// urls returns the URLs that suit the request.
func (h *Handler) urls(r *http.Request) serviceURLs { return serviceURLs{h.scheme(r), h.service} }

// git is the URL of a repository.
func (p serviceURLs) git(path string) string { return p.scheme + "://" + p.service.String() + path }

// relay is the URL of the relay.
func (p serviceURLs) relay() string {
	return "ws" + strings.TrimPrefix(p.scheme, "http") + "://" + p.service.String()
}

// nostr is the URL of a repository for git with a helper for nostr (git-remote-nostr).
// It is "" if the relay cannot be named there by its host alone.
func (p serviceURLs) nostr(r grasp.Repo) string {
	if p.scheme == "http" || p.service.Port != "" {
		return ""
	}
	npub, identifier, _ := strings.Cut(strings.TrimSuffix(r.Path(), ".git")[1:], "/")
	return "nostr://" + npub + "/" + p.service.Host + "/" + identifier
}

// scheme returns how the client reached the service: as it did, or as a trusted proxy
// says that it did. Nobody's word is needed for a name without a port: what has no
// certificate is not reached there for long.
func (h *Handler) scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	if h.trusted(r) {
		// The proxy in front has added its word last.
		words := strings.Split(strings.Join(r.Header.Values("X-Forwarded-Proto"), ","), ",")
		switch strings.ToLower(strings.TrimSpace(words[len(words)-1])) {
		case "https", "wss":
			return "https"
		case "http", "ws":
			return "http"
		}
	}
	if h.service.Port == "443" || h.service.Port == "" && public(h.service.Host) {
		return "https"
	}
	return "http"
}

func (h *Handler) trusted(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	for _, p := range h.cfg.Proxies {
		if p.Contains(from.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// public reports whether a host has a name that others can look up.
func public(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err != nil && strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost") && !strings.HasSuffix(host, ".local")
}

// Repositories are the git repositories on disk.
type Repositories interface {
	// Here reports whether the repository is here. It is asked often, and is cheap.
	Here(ctx context.Context, repo host.Address) (bool, error)

	// Refs returns the refs of a repository by name, and the ref that HEAD names,
	// which need not exist. It reports false if the repository is not here.
	Refs(ctx context.Context, repo host.Address) (refs []grasp.Ref, head string, here bool, err error)
}

// Deps are the sources of the pages' data.
type Deps struct {
	Facts host.RepoFacts
	Git   Repositories
}

// Config has the data of the service for the pages.
type Config struct {
	Name        string
	Description string
	Contact     string // of the operator: a mailto, http, https or nostr URL becomes a link
	Service     string // host[:port] where the service is reached from outside
	PRs         bool   // whether there are repositories under /prs/ (GRASP-06)
	NIPs        []int  // that the relay supports, beyond what the policy makes of it

	// About returns the policy's description of itself, now. Nil: nothing.
	About func() []host.Description

	// Hunt returns the status of the search for git data of an identifier, and false if
	// there is none. Nil: there never is one.
	Hunt func(identifier string) (Hunt, bool)

	// Proxies are the reverse proxies whose X-Forwarded-Proto is believed.
	Proxies []netip.Prefix

	Log *slog.Logger
}

// Hunt is the status of a search for git data.
type Hunt struct {
	Missing int       // objects, at the latest look
	Asking  []string  // URLs that are being asked
	Next    time.Time // when others are; zero while some are
}

func (c *Config) setDefaults() {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Hunt == nil {
		c.Hunt = func(string) (Hunt, bool) { return Hunt{}, false }
	}
	if c.About == nil {
		c.About = func() []host.Description { return nil }
	}
}

var errDeps = errors.New("pages need Facts and Git")

func (d *Deps) check() error {
	if d.Facts == nil || d.Git == nil {
		return errDeps
	}
	return nil
}

// New returns the handler of all pages. It answers every path: what is no page is
// answered with status 404, so that it may stand behind all other handlers.
func New(cfg Config, deps Deps) (*Handler, error) {
	cfg.setDefaults()
	if err := deps.check(); err != nil {
		return nil, err
	}
	service, err := grasp.ParseService(cfg.Service)
	if err != nil {
		return nil, fmt.Errorf("set up pages for %q: %w", cfg.Service, err)
	}
	return &Handler{
		cfg: cfg, service: service,
		read:      reader{deps.Facts},
		git:       deps.Git,
		templates: parseTemplates(),
		slots:     make(chan struct{}, maxTurns),
	}, nil
}
