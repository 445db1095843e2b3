package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"talon/sdk/grasp"
)

const (
	// maxTurns bounds how many pages are made at once.
	maxTurns = 4

	// pageTime bounds how long one takes, its wait for a turn included.
	pageTime = 10 * time.Second

	// freshFor is how long a page may be shown again without asking, in seconds. It is
	// short: who has just pushed wants to see it.
	freshFor = "5"
)

// Handler serves the pages.
type Handler struct {
	cfg     Config
	service grasp.Service
	read    reader
	git     Repositories
	turns   chan struct{}
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
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
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
	if h.cfg.CORS != nil {
		h.cfg.CORS(to)
	}
}

// answer sends a page. A browser that has it already is told so.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, status int, template string, content any) {
	var body bytes.Buffer
	err := templates.ExecuteTemplate(&body, template, frame{
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
