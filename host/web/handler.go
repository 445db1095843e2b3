// Package web serves pages for browsers: what this service is, its repositories, their issues, pull
// requests and patches, the keys that sign all that, and a search. It also serves feeds of these.
// The server makes the pages. They need no script, and load nothing from other servers. Package code
// makes those of files and commits, and package markdown the texts.
//
// It reads events and refs, and changes nothing. Package sdk/grasp has the rules that say who
// maintains a repository and what is open.
//
// Invariants:
//
//  1. Every text of an event is hostile. It is escaped and bounded, without characters that
//     change the order or look of the text around it.
//  2. A text becomes a link only if it is an http, an https or a nostr URL. In a file of a
//     repository, a relative URL leads to another file of it.
//  3. Pages do not show events in purgatory. The page of a repository that waits has only
//     the content of its URL. Held announcements count for who maintains a
//     repository, as they do for a push.
//  4. A page costs a bounded number of bounded reads, whatever is stored. Events by strangers
//     cannot push those of a maintainer out of these reads.
//  5. Few pages are made concurrently, and networks take turns. The handler serves a page again
//     for some seconds, but not after a change of anything that the page depends on.
//  6. Only its author and the maintainers set the status, labels and title of an issue, and only
//     its author adds versions to a pull request or patches to a series.
//  7. No answer says why the server failed: its log does.
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
	"net/url"
	"runtime"
	"strings"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitread"
	"talon/host/gitrepo"
	"talon/host/moderation"
	"talon/host/web/code"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

const (
	// maxBuilds bounds how many pages are made concurrently, and maxWaiting how many wait.
	maxBuilds  = 4
	maxWaiting = 1024

	// maxCodeWaiting is how many requests for pages of code wait.
	maxCodeWaiting = 256

	// pageTime bounds how long one takes, its wait for a turn included.
	pageTime = 10 * time.Second
)

// Handler serves the pages.
type Handler struct {
	cfg       Config
	service   grasp.Service
	read      reader
	git       Repositories
	templates *template.Template
	flow      *bound.Flow // of all requests
	queue     *bound.Queue
	code      *bound.Queue // for pages of code
	middling  *bound.Queue // for those that may start a git
	sending   *bound.Pot   // bytes of large pages that were made
	pages     *code.Pages
	archives  *gitread.Reader // has archives on disk
	cache     *cache
	changes   *changes
	viewed    *viewed
	prepare   func(name string, find gitread.Finder) // prepares pages after a push
}

// page makes the content of a page. It returns the status, the name of the template
// and what the template shows.
type page func(ctx context.Context, r *http.Request) (status int, template string, content any, err error)

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.headers(w.Header())
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !h.awaitTurn(w, r) || h.takenDown(w, r) || h.serveGoGet(w, r) {
		return
	}
	build := h.route(r)
	at, isBelow := parseBelow(r.URL.EscapedPath())
	isCode := build == nil && isBelow && code.KindOf(at.rest) != code.KindNone
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead && fromProgram(r):
		h.answerProgram(w, r)
	case build == nil && !isCode:
		h.answer(w, r, http.StatusNotFound, "message", notFound)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		h.answer(w, r, http.StatusMethodNotAllowed, "message", notAllowed)
	case isCode:
		h.serveCode(w, r, at)
	default:
		h.serve(w, r)
	}
}

// route returns the page of a path, nil if it has none.
func (h *Handler) route(r *http.Request) page {
	path := r.URL.EscapedPath()
	switch path {
	case "/":
		return h.index
	case "/search":
		return h.search
	case "/robots.txt":
		return h.robots
	case "/sitemap.xml":
		return h.sitemap
	}
	if p, ok := parsePath(path); ok {
		switch {
		case !p.PRs:
			return h.repository(p.Repo)
		case h.cfg.PRs:
			return h.prs(p.Repo)
		}
		return nil
	}
	if name := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"); strings.HasPrefix(name, "npub1") {
		if key, err := nip19.DecodeNpub(name); err == nil {
			return h.owner(key)
		}
	}
	if at, ok := parseBelow(path); ok {
		return h.conversations(at.repo, at.rest)
	}
	return nil
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

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	// Pages for one reader are made for each request.
	key := ""
	if h.cfg.SignedIn(r) == "" {
		key = h.scheme(r) + " " + r.URL.EscapedPath() + queryOf(r).String()
	}
	if p := h.kept(r.Context(), key); p != nil {
		h.send(w, r, p.reply())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	a, err := h.takeTurn(ctx, w, r, key)
	switch {
	case err == nil:
		h.send(w, r, a)
	case r.Context().Err() != nil:
		// Nobody waits for an answer.
	case ctx.Err() != nil, errors.Is(err, bound.ErrFull), errors.Is(err, bound.ErrShare):
		w.Header().Set("Retry-After", "5")
		h.answer(w, r, http.StatusServiceUnavailable, "message", busy)
	case errors.Is(err, host.ErrAway):
		h.answerAway(w, r)
	default:
		h.cfg.Log.Error("make a page", "path", r.URL.Path, "err", err)
		h.answer(w, r, http.StatusInternalServerError, "message", failed)
	}
}

// takeTurn waits for a turn, and makes the page of a request. The turn is over before the client
// gets anything: one that does not read would keep it.
func (h *Handler) takeTurn(ctx context.Context, w http.ResponseWriter, r *http.Request, key string) (*reply, error) {
	if err := h.queue.Acquire(ctx, h.cfg.Client(r)); err != nil {
		return nil, err
	}
	defer h.queue.Release()
	// Others who waited for the same page may have made it.
	if p := h.kept(ctx, key); p != nil {
		return p.reply(), nil
	}
	return h.build(ctx, w, r, key)
}

// kept returns a page that was made a moment ago and would be the same now, nil if there is none.
func (h *Handler) kept(ctx context.Context, key string) *kept {
	p := h.cache.get(key, h.cfg.Now())
	if p == nil {
		return nil
	}
	if !p.sources.unchanged(ctx, h) {
		h.cache.drop(p)
		return nil
	}
	return p
}

// build makes the page of a request, and keeps it under key, if that is not empty. The reply is nil if that has failed, and the
// client knows. REQUIRES: a turn, and that the path has a page.
func (h *Handler) build(ctx context.Context, w http.ResponseWriter, r *http.Request, key string) (*reply, error) {
	made := h.cfg.Now()
	noting, sources := h.watching()
	status, template, content, err := noting.route(r)(ctx, r)
	if err != nil {
		return nil, err
	}
	if to, ok := content.(redirect); ok {
		return &reply{status: status, location: string(to)}, nil
	}
	var body []byte
	d, ok := content.(document)
	if ok {
		body = d.Body
	} else if body, ok = h.render(w, r, template, content); !ok {
		return nil, nil
	}
	etag := ""
	if status == http.StatusOK {
		sum := sha256.Sum256(body)
		etag = `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
		if key == "" {
			return &reply{status: status, kind: d.Type, body: body}, nil
		}
		h.cache.put(&kept{key: key, made: made, kind: d.Type, body: body, etag: etag, sources: sources})
	}
	return &reply{status: status, kind: d.Type, body: body, etag: etag}, nil
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

// answer makes and sends a page that needs no turn.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, status int, template string, content any) {
	if body, ok := h.render(w, r, template, content); ok {
		h.send(w, r, &reply{status: status, body: body})
	}
}

// answerAway asks a client to come again when the database is back. The log has one line about that,
// not one for each page.
func (h *Handler) answerAway(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Retry-After", "5")
	h.answer(w, r, http.StatusServiceUnavailable, "message", away)
}

// render fills a template. It answers the request if that fails.
func (h *Handler) render(w http.ResponseWriter, r *http.Request, template string, content any) (page []byte, ok bool) {
	var body bytes.Buffer
	err := h.templates.ExecuteTemplate(&body, template, frame{
		Site: h.service.String(), Style: style, Content: content,
	})
	if err != nil {
		h.cfg.Log.Error("fill a page", "path", r.URL.Path, "template", template, "err", err)
		http.Error(w, failed.Title, http.StatusInternalServerError)
		return nil, false
	}
	return body.Bytes(), true
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

// scheme returns how the client reached the service: by TLS of this process, or as a trusted
// proxy says. Without either, it assumes https for port 443, and for a public name without a
// port: such a service needs a certificate, or clients would soon fail to reach it.
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

	// Repository returns a repository whose announcement is served, nil if it is not here.
	Repository(ctx context.Context, repo host.Address) (*gitrepo.Repo, error)

	// Refs returns the refs of a repository by name, and the ref that HEAD names,
	// which need not exist. It reports false if the repository is not here.
	Refs(ctx context.Context, repo host.Address) (refs []grasp.Ref, head string, here bool, err error)
}

// Deps are the sources of the pages' data.
type Deps struct {
	Facts host.RepoFacts
	Git   Repositories
	Code  *gitread.Reader // of what is in repositories
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

	// Moderation is the operator's log of what is taken down; nil is an empty one.
	Moderation *moderation.Log

	// Proxies are the reverse proxies whose X-Forwarded-Proto is believed.
	Proxies []netip.Prefix

	// Client returns the holder that shared limits count a request as. Nil: all are strangers
	// without an address.
	Client func(*http.Request) bound.Holder

	// SignedIn returns the prefix of the paths of a client that has proven a key, which the path of
	// its request no longer has. It is "" for others. Nil: nobody signs in.
	SignedIn func(*http.Request) (prefix string)

	// Usage says to the author of a page what takes how much here. It returns nothing if the client
	// has not proven that key. Nil: nobody gets to know.
	Usage func(r *http.Request, author host.PubKey, repositories []host.Address) ([]string, error)

	Log *slog.Logger
	Now func() time.Time // nil means time.Now
}

// Hunt is the status of a search for git data.
type Hunt struct {
	Missing int       // objects, at the latest look
	Asking  []string  // URLs that are being asked
	Next    time.Time // when others are; zero while some are
}

func (c *Config) setDefaults() {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Moderation = cmp.Or(c.Moderation, new(moderation.Log))
	if c.Client == nil {
		c.Client = func(*http.Request) bound.Holder { return bound.Holder{} }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.SignedIn == nil {
		c.SignedIn = func(*http.Request) string { return "" }
	}
	if c.Hunt == nil {
		c.Hunt = func(string) (Hunt, bool) { return Hunt{}, false }
	}
	if c.About == nil {
		c.About = func() []host.Description { return nil }
	}
}

var errDeps = errors.New("pages need Facts, Git and Code")

func (d *Deps) check() error {
	if d.Facts == nil || d.Git == nil || d.Code == nil {
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
	pages := code.New(code.Config{Reader: deps.Code, Log: cfg.Log, Now: cfg.Now, Local: localRepository(service)})
	return &Handler{
		cfg: cfg, service: service,
		flow:      newFlow(cfg.Now),
		read:      reader{deps.Facts},
		git:       deps.Git,
		templates: parseTemplates(),
		archives:  deps.Code,
		pages:     pages,
		viewed:    newViewed(),
		prepare:   pages.Fill,
		cache:     newCache(),
		changes:   newChanges(cfg.Now),
		queue: bound.NewQueue(bound.Spec{
			Name: "pages that wait to be made", Unit: "requests", Total: maxWaiting, Known: bound.KnownPart(maxWaiting),
			Yields: "nobody; networks take turns, and the next request gets status 503",
		}, maxBuilds),
		code: bound.NewQueue(bound.Spec{
			Name: "pages of code that wait to be made", Unit: "requests", Total: maxCodeWaiting, Known: bound.KnownPart(maxCodeWaiting),
			Yields: "nobody; networks take turns, and the next request gets status 503",
		}, max(2, runtime.NumCPU()/2)),
		middling: bound.NewQueue(bound.Spec{
			Name: "pages of code that wait for git", Unit: "requests", Total: maxCodeWaiting, Known: bound.KnownPart(maxCodeWaiting),
			Yields: "nobody; networks take turns, and the next request gets status 503",
		}, max(2, runtime.NumCPU()/2)),
		sending: newSending(),
	}, nil
}

// localRepository returns a function that returns the path of the page of a repository that the service
// has at a clone URL.
func localRepository(service grasp.Service) func(cloneURL string) (path string, ok bool) {
	return func(cloneURL string) (string, bool) {
		if !service.ServesGit(cloneURL) {
			return "", false
		}
		u, err := url.Parse(cloneURL)
		if err != nil {
			return "", false
		}
		npub, segment, _ := strings.Cut(strings.Trim(u.EscapedPath(), "/"), "/")
		repo, ok := parseRepo(npub, segment)
		return basePath(repo), ok
	}
}

// Bounds returns the limits that all clients share, for the table of bounds.
func (h *Handler) Bounds() []bound.Spec {
	return append([]bound.Spec{h.flow.Spec(), h.queue.Spec(), h.code.Spec(), h.middling.Spec(), h.sending.Spec()}, h.pages.Bounds()...)
}
