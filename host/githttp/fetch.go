package githttp

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"talon/host/gitrepo"
)

// serveRefs answers info/refs: what a repository has, and what git can do here.
func (h *Handler) serveRefs(w http.ResponseWriter, r *http.Request, parts []string) result {
	if !method(w, r, http.MethodGet, http.MethodHead) {
		return resultMalformed
	}
	var service gitrepo.Service
	use := Fetch
	switch r.URL.Query().Get("service") {
	case "git-upload-pack":
	case "git-receive-pack":
		service, use = gitrepo.ReceivePack, Prepare
	default:
		writeText(w, http.StatusForbidden, "This server speaks git's smart HTTP protocol only. Use git 1.6.6 or later.")
		return resultMalformed
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), h.limits.Whole, errSlow)
	defer stop()
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	opening := gitrepo.AppendPkt(nil, "# service=git-", service.String(), "\n")
	opening = append(opening, flushPkt...)
	contentType := "application/x-git-" + service.String() + "-advertisement"
	out := h.answer(w)
	out.offer(r)
	defer out.finish()

	repo, got, ok := h.locate(ctx, w, r, parts, use, contentType, opening, out)
	if !ok {
		return got
	}
	// HEAD starts no git.
	there, err := repo.Exists()
	if err == nil && !there {
		err = gitrepo.ErrNotFound
	}
	if err != nil {
		return h.failed(w, r, err)
	}
	if r.Method == http.MethodHead {
		head(w, contentType)
		w.WriteHeader(http.StatusOK)
		return resultOK
	}

	version := protocolOf(r)
	if service == gitrepo.ReceivePack && version == 2 {
		version = 0 // there is no push in version 2, and git answers as if nothing was asked for
	}
	if version == 2 {
		opening = nil // version 2 speaks for itself
	}
	said, ok, err := repo.AdvertiseRefs(work, service, version, h.disk.noThin(h.cfg.Client(r).Addr, OwnerOf(repo)))
	if err != nil {
		return h.failed(w, r, err)
	}
	if ok {
		return h.writeWhole(w, r, out, contentType, append(opening, said...))
	}
	task, got, ok := h.startTask(work, w, r, gitrepo.ClassRefs)
	if !ok {
		return got
	}
	defer task.End()
	p, err := repo.Advertise(task.Context(), service, version)
	if err != nil {
		return h.failed(w, r, err)
	}
	_ = p.In.Close()
	return h.relay(task, cancel, w, r, p, contentType, opening, out, verbRefs)
}

func (h *Handler) find(ctx context.Context, parts []string, use Use) (*gitrepo.Repo, error) {
	if use != Fetch && h.pushes == nil {
		return nil, &Refusal{Reason: "nobody can push here: this server is read-only"}
	}
	return h.repos.Find(ctx, parts, use)
}

// locate finds the repository of a request. It answers the request if there is none.
func (h *Handler) locate(
	ctx context.Context, w http.ResponseWriter, r *http.Request, parts []string, use Use,
	contentType string, opening []byte, out *answer,
) (repo *gitrepo.Repo, got result, ok bool) {
	repo, err := h.find(ctx, parts, use)
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		head(w, contentType)
		_, _ = out.Write(appendError(opening, refusal.Reason))
		return nil, resultRefused, false
	}
	if err != nil {
		return nil, h.failed(w, r, err), false
	}
	return repo, resultOK, true
}

// writeWhole sends an answer that is in memory. The client is cut off if others need the
// memory.
func (h *Handler) writeWhole(w http.ResponseWriter, r *http.Request, out *answer, contentType string, text []byte) result {
	size := min(int64(len(text)), h.bodies.Spec().Network)
	hold, err := h.bodies.Displace(h.holder(h.cfg.Client(r)), size, out.cutOff)
	if err != nil {
		return h.unavailable(w)
	}
	defer hold.Release()
	head(w, contentType)
	if _, err := out.Write(text); err != nil {
		return resultCutOff
	}
	out.finish()
	return resultOK
}

// relay sends what git writes, and waits for its end. The client gets the error of a git
// that fails before it has written anything. Cancel ends the context that the task began with.
func (h *Handler) relay(
	task *gitrepo.Task, cancel context.CancelCauseFunc, w http.ResponseWriter, r *http.Request, p *gitrepo.Process,
	contentType string, opening []byte, out *answer, v verb,
) result {
	ctx := task.Context()
	task.Attach(p)
	out.follow(task)
	defer out.follow(nil)
	h.metrics.running[v].Inc()
	defer h.metrics.running[v].Dec()
	first := make([]byte, 4<<10)
	n, _ := p.Out.Read(first)
	var sending error
	if n > 0 {
		head(w, contentType)
		if _, sending = out.Write(append(opening, first[:n]...)); sending == nil && n < len(first) {
			sending = out.flush()
		}
		if sending == nil {
			sending = out.copyFrom(p.Out)
		}
	}
	if sending != nil {
		cancel(sending) // git works for nobody
		_, _ = io.Copy(io.Discard, p.Out)
	}
	err := p.Wait()
	switch {
	case sending != nil || r.Context().Err() != nil:
		return resultCutOff
	case err == nil:
		return resultOK
	case errors.Is(context.Cause(ctx), gitrepo.ErrDisplaced):
		h.cfg.Log.Info("a git request was cut off", "path", r.URL.Path, "err", err)
		if !out.begun {
			head(w, contentType)
		}
		out.writeError(displaced)
		return resultBusy
	case ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTooLarge) && !errors.Is(context.Cause(ctx), errInflate):
		h.cfg.Log.Info("a git request was cut off", "path", r.URL.Path, "err", err)
		return resultCutOff
	}
	if !out.begun {
		head(w, contentType)
		_, _ = out.Write(appendError(opening, "the server could not read the request or the repository"))
	}
	// Most often git did not like what the client asked for.
	h.cfg.Log.Info("git ended a request", "path", r.URL.Path, "err", err)
	return resultRefused
}

// serveFetch answers git-upload-pack: a step of a clone or fetch. The request is read before
// git gets a slot.
func (h *Handler) serveFetch(w http.ResponseWriter, r *http.Request, parts []string) result {
	in, got, ok := h.accept(w, r, "application/x-git-upload-pack-request", h.limits.FetchBytes)
	if !ok {
		return got
	}
	if r.ContentLength > h.limits.FetchBytes {
		writeText(w, http.StatusRequestEntityTooLarge, "The request is too large.")
		return resultRefused
	}
	if err := in.begin(); err != nil {
		return h.internal(w, r, err)
	}
	ctx, stop := context.WithTimeoutCause(r.Context(), h.limits.Whole, errSlow)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := h.answer(w)
	defer func() {
		out.finish()
		in.drain(h.limits.FetchBytes, h.limits.OpeningTime)
	}()
	const contentType = "application/x-git-upload-pack-result"
	repo, got, ok := h.locate(ctx, w, r, parts, Fetch, contentType, nil, out)
	if !ok {
		return got
	}
	request, err := h.readRequest(in, h.holder(h.cfg.Client(r)), cancel)
	if err != nil && errors.Is(context.Cause(ctx), gitrepo.ErrDisplaced) {
		err = gitrepo.ErrDisplaced
	}
	if err != nil {
		return h.refuseRequest(w, r, out, contentType, err)
	}
	defer request.release()
	class := gitrepo.ClassFetch
	if protocolOf(r) == 2 && request.isRefs() {
		class = gitrepo.ClassRefs
		text, ok, err := repo.ListRefs(ctx, request.text())
		if err != nil {
			return h.failed(w, r, err)
		}
		if ok {
			return h.writeWhole(w, r, out, contentType, text)
		}
	}
	wants, err := repo.Wants(ctx, request.reader())
	if err != nil {
		return h.refuseWants(w, r, out, contentType, err)
	}
	task, got, ok := h.startTask(ctx, w, r, class)
	if !ok {
		return got
	}
	defer task.End()
	if err := h.walk(r, task, wants); err != nil {
		return h.refuseWants(w, r, out, contentType, err)
	}
	p, err := repo.Upload(task.Context(), protocolOf(r))
	if err != nil {
		return h.failed(w, r, err)
	}
	go func() {
		if err := h.cfg.Panics.Run(func() error { request.feed(p); return nil }); err != nil {
			cancel(err)
		}
	}()
	return h.relay(task, cancel, w, r, p, contentType, nil, out, verbFetch)
}

// walk checks the wants of a fetch that need git for it. The processor time counts for the network.
func (h *Handler) walk(r *http.Request, task *gitrepo.Task, wants *gitrepo.Wants) error {
	if !wants.Open() {
		return nil
	}
	client := h.cfg.Client(r).Addr
	if wait := h.walks.Wait(client); wait > 0 {
		return &Refusal{Reason: fmt.Sprintf("git has looked long for single objects that your address asked for: try again in %v", max(wait.Round(time.Minute), time.Minute))}
	}
	took, err := wants.Walk(task)
	h.walks.Charge(client, took.Seconds()*1000)
	return err
}

// refuseWants answers a fetch whose wants are refused, or could not be checked.
func (h *Handler) refuseWants(w http.ResponseWriter, r *http.Request, out *answer, contentType string, err error) result {
	notOurs, refusal, takenDown := new(gitrepo.NotOurs), new(Refusal), new(gitrepo.TakenDown)
	switch {
	case errors.As(err, &notOurs), errors.As(err, &refusal), errors.As(err, &takenDown):
		h.cfg.Log.Info("a git request was refused", "path", r.URL.Path, "err", err)
		head(w, contentType)
		_, _ = out.Write(appendError(nil, err.Error()))
		return resultRefused
	case r.Context().Err() != nil:
		return resultCutOff
	case errors.Is(err, gitrepo.ErrDisplaced), errors.Is(err, gitrepo.ErrBusy):
		return h.unavailable(w)
	}
	return h.failed(w, r, err)
}

// accept checks the method and type of a request with a body, and opens that.
func (h *Handler) accept(w http.ResponseWriter, r *http.Request, contentType string, limit int64) (*body, result, bool) {
	if !method(w, r, http.MethodPost) {
		return nil, resultMalformed, false
	}
	if r.Header.Get("Content-Type") != contentType {
		writeText(w, http.StatusUnsupportedMediaType, "The body must be "+contentType+".")
		return nil, resultMalformed, false
	}
	in, err := h.openBody(w, r, limit)
	if errors.Is(err, errEncoding) {
		writeText(w, http.StatusUnsupportedMediaType, "The body may be compressed with gzip, and with nothing else.")
		return nil, resultMalformed, false
	}
	if err != nil {
		return nil, h.internal(w, r, err), false
	}
	return in, resultOK, true
}

// feed gives git the body, and then its end. An error is the client's, and git does
// not see an end then, which would be that of half a request. A git that reads no
// further says why by itself. While a client is slow, others may have the slot. A scan, if
// there is one, sees each byte before git does, and may end it.
func feed(p *gitrepo.Process, in *body, t *gitrepo.Task, scan *gitrepo.PackScan) error {
	buf := make([]byte, minProgress)
	for {
		var n int
		var err error
		if lost := t.Await(func() { n, err = in.Read(buf) }); lost != nil {
			return lost
		}
		if n > 0 && scan != nil {
			if _, err := scan.Write(buf[:n]); err != nil {
				return err
			}
		}
		if n > 0 {
			if _, err := p.In.Write(buf[:n]); err != nil {
				return nil
			}
		}
		if err == io.EOF {
			_ = p.In.Close()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// gzipFrom is the size from which what a client may have compressed is: a smaller
// advertisement fits a packet or two anyway.
const gzipFrom = 1400

// zippers are gzip.Writers that nobody uses: one takes most of a megabyte. Names of refs
// are what shrinks, at any level.
var zippers = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}}

// zip compresses an answer that is longer than gzipFrom.
type zip struct {
	held []byte       // the start of the answer, until it is known how long it is
	w    *gzip.Writer // nil until then
}

// offer lets the answer be compressed if the client takes that.
func (a *answer) offer(r *http.Request) {
	a.w.Header().Add("Vary", "Accept-Encoding")
	if r.Method != http.MethodHead && acceptsGzip(r.Header) {
		a.zip = new(zip)
	}
}

// writeZip compresses p, or keeps it while the answer is short.
func (a *answer) writeZip(p []byte) (int, error) {
	z := a.zip
	if z.w != nil {
		return z.w.Write(p)
	}
	z.held = append(z.held, p...)
	if len(z.held) < gzipFrom {
		return len(p), nil
	}
	a.w.Header().Set("Content-Encoding", "gzip")
	z.w = zippers.Get().(*gzip.Writer)
	z.w.Reset(sent{a})
	held := z.held
	z.held = nil
	if _, err := z.w.Write(held); err != nil {
		return 0, err
	}
	return len(p), nil
}

// endZip sends what has not been sent.
func (a *answer) endZip() {
	z := a.zip
	a.zip = nil
	switch {
	case z == nil:
	case z.w == nil:
		_, _ = a.send(z.held)
	default:
		_ = z.w.Close() // a client that is gone
		z.w.Reset(nil)
		zippers.Put(z.w)
	}
}

// sent is what goes to the client as it is.
type sent struct{ *answer }

func (s sent) Write(p []byte) (int, error) { return s.send(p) }

// acceptsGzip reports whether a client takes gzip (RFC 9110, 12.5.3).
func acceptsGzip(h http.Header) bool {
	any := false
	for _, line := range h.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			switch name {
			case "gzip", "x-gzip":
				return wanted(parameters)
			case "*":
				any = wanted(parameters)
			}
		}
	}
	return any
}

// wanted reports whether the parameters of a coding do not give it the weight 0.
func wanted(parameters string) bool {
	for p := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q > 0
		}
	}
	return true
}
