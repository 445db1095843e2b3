package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"talon/host"
	"talon/host/bound"
	"talon/host/gitread"
	"talon/host/web/code"
	"talon/sdk/grasp"
)

// below is a path below the page of a repository.
type below struct {
	repo grasp.Repo
	rest string // what follows, escaped; not empty
}

// parseBelow takes apart a path below the page of a repository, with or without .git. The endpoints
// of git are not among them.
func parseBelow(escaped string) (below, bool) {
	npub, rest, ok := strings.Cut(strings.TrimPrefix(escaped, "/"), "/")
	segment, rest, more := strings.Cut(rest, "/")
	if !ok || !more || rest == "" {
		return below{}, false
	}
	repo, ok := parseRepo(npub, segment)
	if !ok {
		return below{}, false
	}
	return below{repo, rest}, true
}

// parseRepo returns the repository of the first two segments of a path.
func parseRepo(npub, segment string) (grasp.Repo, bool) {
	p, err := grasp.ParsePath("/" + npub + "/" + segment)
	if err != nil {
		p, err = grasp.ParsePath("/" + npub + "/" + segment + ".git")
	}
	return p.Repo, err == nil && !p.PRs
}

// basePath returns the path that links to pages of a repository begin with: without .git, unless the
// identifier itself ends so.
func basePath(repo grasp.Repo) string {
	if strings.HasSuffix(repo.Identifier, ".git") {
		return repo.Path()
	}
	return strings.TrimSuffix(repo.Path(), ".git")
}

// serveCode answers a request for what is in a repository.
func (h *Handler) serveCode(w http.ResponseWriter, r *http.Request, at below) {
	kind := code.KindOf(at.rest)
	queue := h.code
	if kind == code.KindMiddling {
		queue = h.middling
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTime)
	defer cancel()
	err := queue.Acquire(ctx, h.cfg.Client(r))
	var a *reply
	down := (*gitread.TakenDown)(nil)
	if err == nil {
		if kind == code.KindFile {
			err = h.sendFile(w, r, at, queue)
		} else {
			a, err = h.makeCode(ctx, w, r, at)
			queue.Release()
		}
	}
	switch {
	case err == nil:
		h.send(w, r, a)
	case r.Context().Err() != nil:
		// Nobody waits for an answer.
	case errors.Is(err, code.ErrSignIn):
		h.answer(w, r, http.StatusForbidden, "message", signIn)
	case errors.As(err, &down):
		h.answer(w, r, http.StatusUnavailableForLegalReasons, "message", objectDown(down))
	case errors.Is(err, gitread.ErrNotFound):
		h.answer(w, r, http.StatusNotFound, "message", notInRepository)
	case ctx.Err() != nil, code.IsBusy(err):
		w.Header().Set("Retry-After", "5")
		h.answer(w, r, http.StatusServiceUnavailable, "message", busy)
	case errors.Is(err, gitread.ErrIndexing):
		w.Header().Set("Retry-After", "10")
		h.answer(w, r, http.StatusServiceUnavailable, "message", indexing)
	case errors.Is(err, gitread.ErrTooLarge), errors.Is(err, gitread.ErrCPU):
		h.answer(w, r, http.StatusForbidden, "message", tooLarge)
	case errors.Is(err, host.ErrAway):
		h.answerAway(w, r)
	default:
		h.cfg.Log.Error("make a page of code", "path", r.URL.Path, "err", err)
		h.answer(w, r, http.StatusInternalServerError, "message", failed)
	}
}

// codeRequest returns the request for what is in a repository, after it has checked that the
// repository may be seen. It fails with gitread.ErrNotFound.
func (h *Handler) codeRequest(ctx context.Context, r *http.Request, at below) (*code.Request, error) {
	a, err := h.read.announced(ctx, at.repo)
	if err != nil {
		return nil, err
	}
	if a.stored == nil {
		return nil, gitread.ErrNotFound
	}
	repo, err := h.git.Repository(ctx, address(at.repo))
	if err != nil {
		return nil, err
	}
	if repo == nil {
		return nil, gitread.ErrNotFound
	}
	h.viewed.add(address(at.repo))
	t, err := h.texts(ctx, nil)
	if err != nil {
		return nil, err
	}
	q, o := h.codeOf(r, repo, at.repo, a.stored.Name), t.options(1)
	q.Href, q.Mention, q.Rest = o.Href, o.Mention, at.rest
	q.Mentions = func(ctx context.Context, text string) (func(code string) (label, href string), error) {
		t, err := h.texts(ctx, nil, text)
		if err != nil {
			return nil, err
		}
		return t.mention, nil
	}
	q.Fork = func(ctx context.Context, npub string) (*code.Request, error) { return h.fork(ctx, r, at.repo, npub) }
	q.Forks = func(ctx context.Context) ([]code.Fork, error) { return h.forks(ctx, r, at.repo) }
	if prefix := h.cfg.SignedIn(r); prefix != "" {
		q.SignedIn, q.Base = true, prefix+at.repo.Path()
	}
	return q, nil
}

// makeCode makes a page of code. The reply is nil if that has failed, and the client knows.
// REQUIRES: a turn.
func (h *Handler) makeCode(ctx context.Context, w http.ResponseWriter, r *http.Request, at below) (*reply, error) {
	q, err := h.codeRequest(ctx, r, at)
	if err != nil {
		return nil, err
	}
	page, err := h.pages.Page(ctx, q)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Security-Policy", codePolicy)
	switch {
	case page.Location != "":
		return &reply{status: page.Status, location: page.Location}, nil
	case page.Status == http.StatusNotModified:
		return &reply{status: page.Status, etag: page.ETag}, nil
	}
	body, ok := h.render(w, r, page.Template, page.Content)
	if !ok {
		return nil, nil
	}
	return &reply{status: page.Status, body: body, etag: page.ETag}, nil
}

// sendFile makes and sends another answer about code. It gives the turn back before it waits for
// the client.
func (h *Handler) sendFile(w http.ResponseWriter, r *http.Request, at below, queue *bound.Queue) error {
	file, err := func() (*code.File, error) {
		defer queue.Release()
		q, err := h.codeRequest(r.Context(), r, at)
		if err != nil {
			return nil, err
		}
		return h.pages.File(r.Context(), q)
	}()
	if err != nil {
		return err
	}
	defer file.End()
	reading, err := h.reserve(w, r, len(file.Body))
	if err != nil {
		h.refuseLarge(w)
		return nil
	}
	defer reading.end()
	file.WriteHead(w)
	if r.Method == http.MethodHead || !file.HasBody() {
		return nil
	}
	if err := file.WriteBody(patientWriter{w, http.NewResponseController(w)}); err != nil {
		h.cfg.Log.Debug("send a file", "path", r.URL.Path, "err", err)
		if file.Body == nil {
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
	}
	return nil
}

// stallTime bounds how long a client may take no byte of a file. A large file takes longer in all.
const stallTime = time.Minute

// patientWriter writes to a client that has stallTime for each piece.
type patientWriter struct {
	to         io.Writer
	controller *http.ResponseController
}

func (w patientWriter) Write(p []byte) (int, error) {
	_ = w.controller.SetWriteDeadline(time.Now().Add(stallTime)) // a writer of a test has none
	return w.to.Write(p)
}

var (
	notInRepository = message{
		"Not in this repository",
		"There is no repository under this address, or it has no such file, branch, tag or commit.",
		"Check the address. A branch or a file may have been renamed or removed since somebody linked to it.",
	}
	signIn = message{
		"For people who have signed in",
		"The commits of one author cost this service much work.",
		"Sign in with a nostr key: see the guide to pages of code. Or clone the repository and run git log.",
	}
	indexing = message{
		"Not indexed yet",
		"The history of this repository is large and is being indexed.",
		"Open the page again in a moment.",
	}
	tooLarge = message{
		"Too large for a page",
		"This would be larger than a page of this service may be.",
		"Clone the repository and look at it with git.",
	}
)
