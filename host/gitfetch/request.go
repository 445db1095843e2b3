package gitfetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"talon/host/gitfetch/queue"
	"talon/host/gitrepo"
	"talon/host/throttle"
	"talon/sdk/abi"
)

// redirect is where a redirect led, in the search for an identifier.
type redirect struct{ identifier, to string }

// maxMoved bounds how many redirects are remembered.
const maxMoved = 10_000

// fetch answers a Fetch. A Stop ends asking, and not what is done with what has come.
func (h *Hunter) fetch(ctx, asking context.Context, g *egressProxy, w queue.Work, label string) {
	result := queue.Result{Skipped: true, Missing: 1} // if it panics; the next round asks again
	_ = h.cfg.Panics.Run(func() error {
		result = h.request(ctx, asking, g, w, label)
		return nil
	})
	if result.Skipped {
		h.log.Debug("a URL need not be asked any more", "identifier", w.Key, "url", w.URL.Text)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stops[w.Ticket](nil)
	delete(h.stops, w.Ticket)
	if result.Moved.Text != "" {
		h.recordRedirect(w, result.Moved.Text)
	}
	h.queue.Done(h.now(), w.Ticket, result)
}

// request asks the URL of a Fetch for all that may be there.
func (h *Hunter) request(ctx, asking context.Context, g *egressProxy, w queue.Work, label string) queue.Result {
	list, err := h.wanted(asking, w.Key)
	if err != nil {
		return queue.Result{Skipped: true, Missing: 1}
	}
	origin := h.origin(w)
	errands := h.errands(w.Key, list, w.URL.Text, origin)
	if len(errands) == 0 {
		return queue.Result{Skipped: true, Missing: len(missing(list))}
	}
	charged, ok := h.visit(asking, w, list, origin)
	if !ok {
		return queue.Result{Skipped: true, Missing: len(missing(list))}
	}
	var own *http.Transport
	if charged {
		own = newTransport(h.guard.charging(h.strangers.charge), h.cfg.Limits) // of its own, so that each connection is charged
	}
	s, err := g.open(asking, w.URL, own)
	if err != nil {
		return queue.Result{Skipped: true, Missing: len(missing(list))}
	}
	defer s.close()
	h.metrics.started(label)
	began := h.cfg.Now()
	wanted, found := 0, 0
	var git error
	for _, a := range errands {
		got, err := h.into(asking, s, a)
		wanted += len(a.ids)
		found += len(got)
		h.arrived(ctx, w.Key, a, got)
		if err != nil {
			git = err
		}
		var refused *gitrepo.RefusedObjects
		if errors.As(err, &refused) {
			h.refuse(w.Key, refused.IDs, w.URL.Text, origin)
		}
		if err != nil && refused == nil || s.failure() != nil {
			break
		}
	}
	result := judge(wanted, found, s.failure(), git)
	result.Crowded = errors.Is(s.failure(), errCrowded)
	result.Bytes = s.bytes.Load()
	if left, err := h.wanted(ctx, w.Key); err == nil {
		list = left
	}
	result.Missing = len(missing(list))
	took := h.cfg.Now().Sub(began)
	h.metrics.done(label, &result, took)
	if errors.As(s.failure(), new(*laterError)) {
		h.log.Debug("a git server is asked later", "identifier", w.Key, "url", w.URL.Text, "err", s.failure())
		return queue.Result{Skipped: true, Missing: result.Missing}
	}
	if found > 0 && h.strangers != nil {
		h.strangers.proven(w.URL.Domain)
	}
	h.logOutcome(w, &result, took)
	return result
}

// errand is what one fetch brings: all that repositories lack which share their objects.
type errand struct {
	into  Repository
	ids   []string
	wants []Want

	maxBytes int64 // that may come; 0 is no limit
}

const (
	maxStores = 4      // that one request fetches into
	maxIDs    = 10_000 // objects of one of them
)

// errands returns the requests of wants to a URL, or to one that redirected there. It takes one
// object of each want in turn. Otherwise a want with thousands would leave no room for others.
func (h *Hunter) errands(identifier string, list []Want, u, origin string) (errands []errand) {
	for _, w := range list {
		w.Objects = h.takeable(identifier, u, w.Objects)
		if len(w.Objects) == 0 || w.Full || !h.names(w, u) && (origin == "" || !h.names(w, origin)) {
			continue
		}
		i := slices.IndexFunc(errands, func(a errand) bool { return a.into.Store() == w.Into.Store() })
		switch {
		case i >= 0:
			errands[i].wants = append(errands[i].wants, w)
			if most := &errands[i].maxBytes; *most > 0 && (w.MaxBytes == 0 || w.MaxBytes > *most) {
				*most = w.MaxBytes
			}
		case len(errands) < maxStores:
			errands = append(errands, errand{into: w.Into, wants: []Want{w}, maxBytes: w.MaxBytes})
		}
	}
	for i := range errands {
		a := &errands[i]
		seen := make(map[string]bool)
		for n, more := 0, true; more && len(a.ids) < maxIDs; n++ {
			more = false
			for _, w := range a.wants {
				if n < len(w.Objects) && len(a.ids) < maxIDs {
					more = true
					if id := w.Objects[n]; !seen[id] {
						seen[id] = true
						a.ids = append(a.ids, id)
					}
				}
			}
		}
	}
	return errands
}

// arrived tells the forge of each repository that lacked something that has come.
func (h *Hunter) arrived(ctx context.Context, identifier string, a errand, got []string) {
	told := make(map[string]bool)
	for _, w := range a.wants {
		if told[w.Into.Dir()] || !slices.ContainsFunc(w.Objects, func(id string) bool { return slices.Contains(got, id) }) {
			continue
		}
		told[w.Into.Dir()] = true
		if err := h.cfg.Repos.Arrived(ctx, identifier, w.Into); err != nil && ctx.Err() == nil {
			h.log.Error("git data has come, but the repository is not in line", "identifier", identifier, "repository", w.Into.Dir(), "err", err)
		}
	}
}

// names reports whether a want has a URL.
func (h *Hunter) names(w Want, u string) bool {
	for _, text := range w.URLs {
		if parsed, err := h.cfg.Addresses.ParseURL(text); err == nil && parsed.Text == u {
			return true
		}
	}
	return false
}

// origin returns the URL of an event that led to a URL, if that was a redirect.
func (h *Hunter) origin(w queue.Work) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moved[redirect{w.Key, w.URL.Text}]
}

// recordRedirect keeps where a redirect led. REQUIRES: mu.
func (h *Hunter) recordRedirect(w queue.Work, to string) {
	if len(h.moved) >= maxMoved {
		clear(h.moved)
	}
	h.moved[redirect{w.Key, to}] = cmp.Or(h.moved[redirect{w.Key, w.URL.Text}], w.URL.Text)
}

// into has git fetch objects. Git has a moment longer than the server, so that it can
// say what went wrong.
func (h *Hunter) into(ctx context.Context, s *session, a errand) ([]string, error) {
	into := a.into
	ctx, cancel := context.WithTimeoutCause(ctx, h.cfg.Limits.Whole+time.Minute, errTime)
	defer cancel()
	format, err := into.Format(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.scan = func() *gitrepo.PackScan { return into.ScanPack(format, false) }
	s.mu.Unlock()
	before := s.bytes.Load() // the session may be of several fetches
	s.quota.Store(0)
	if a.maxBytes > 0 {
		s.quota.Store(before + a.maxBytes)
	}
	domain, store := "domain "+s.domain, "store "+into.Store()
	return into.Fetch(ctx, gitrepo.Source{
		URL:      s.url(),
		Received: func() int64 { return s.bytes.Load() - before },
		Thin:     gitrepo.ThinLimit{Free: min(h.completed.Left(domain), h.completed.Left(store))},
		Completed: func(bytes int64) error {
			for _, key := range []string{domain, store} {
				if wait := h.completed.Reserve(key, float64(bytes)); wait > 0 {
					return &gitrepo.Refused{Reason: fmt.Sprintf("thin packs have made this server store %d MiB in an hour: the next is fetched in %v",
						h.cfg.Limits.Thin>>20, wait.Round(time.Minute))}
				}
			}
			return nil
		},
	}, a.ids...)
}

// logOutcome logs how a request ended.
func (h *Hunter) logOutcome(w queue.Work, r *queue.Result, took time.Duration) {
	level := slog.LevelDebug
	outcome := r.Outcome
	if r.Crowded {
		outcome = abi.OutcomeNotFound
	}
	switch outcome {
	case abi.OutcomeOK, abi.OutcomePartial:
		level = slog.LevelInfo
	case abi.OutcomeNotFound:
		if r.Reason != "" {
			level = slog.LevelInfo
		}
	default:
		level = slog.LevelWarn
	}
	h.log.Log(context.Background(), level, "asked for git data", "identifier", w.Key, "url", w.URL.Text, "outcome", OutcomeName(r.Outcome),
		"found", r.Found, "missing", r.Missing, "bytes", r.Bytes, "took", took, "err", r.Reason)
}

// source is an object of a server.
type source struct{ url, object string }

// maxRefused bounds how many objects of servers are remembered as refused.
const maxRefused = 10_000

// refuse remembers objects that a URL has and that were refused for their content. The search
// does not ask for them there again: the name of an object fixes all that it refers to, so that
// will not change. It asks other URLs, for a server may have added something to its answer.
func (h *Hunter) refuse(identifier string, ids []string, urls ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range urls {
		for _, id := range ids {
			if u == "" || h.isRefused(identifier, u, id) {
				continue
			}
			if h.refusals >= maxRefused {
				clear(h.refused)
				h.refusals = 0
			}
			if h.refused[identifier] == nil {
				h.refused[identifier] = make(map[source]bool)
			}
			h.refused[identifier][source{u, id}] = true
			h.refusals++
		}
	}
}

// isRefused reports whether an object was refused that a URL has. REQUIRES: mu.
func (h *Hunter) isRefused(identifier, u, id string) bool {
	return h.refused[identifier][source{u, id}]
}

// forget forgets what was refused in the search for an identifier. REQUIRES: mu.
func (h *Hunter) forget(identifier string) {
	h.refusals -= len(h.refused[identifier])
	delete(h.refused, identifier)
}

// takeable returns those of the objects that a URL may be asked for.
func (h *Hunter) takeable(identifier, u string, ids []string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.refused[identifier]) == 0 {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return h.isRefused(identifier, u, id) })
}

// judge says how a fetch ended. Git's own error counts only if the server did all that was asked
// of it by HTTP. A fault of this machine has no outcome, since no server is to blame. Objects
// that are refused for their content have none either: the server gave the objects that were
// asked for.
func judge(wanted, found int, cause, git error) queue.Result {
	r := queue.Result{Found: found}
	var refused *gitrepo.RefusedObjects
	var work *gitrepo.Refused
	switch {
	case found == wanted:
		r.Outcome = abi.OutcomeOK
		return r
	case git == nil && (cause == nil || errors.Is(cause, errClosed)):
		// Git may have had enough before the server had.
		r.Outcome = abi.OutcomeNotFound
	case (cause == nil || errors.Is(cause, errClosed)) && errors.As(git, &refused):
		r.Outcome = abi.OutcomeNotFound
		r.Reason = reason(fmt.Errorf("what it has is refused: %w", refused))
	case (cause == nil || errors.Is(cause, errClosed)) && errors.As(git, &work):
		r.Outcome = abi.OutcomeTooLarge
		r.Reason = reason(git)
	case cause == nil || errors.Is(cause, errClosed):
		r.Outcome = abi.OutcomeProtocol
		if localFailure(git) {
			r.Outcome = abi.OutcomeUnspecified
		}
		r.Reason = reason(git)
	default:
		r.Outcome = outcomeOf(cause)
		r.Reason = reason(cause)
		var status *statusError
		if errors.As(cause, &status) {
			r.Status, r.RetryAfter = status.status, status.retryAfter
		}
		var moved *movedError
		if errors.As(cause, &moved) {
			r.Moved = moved.to
		}
	}
	if found > 0 && r.Outcome != abi.OutcomeUnspecified {
		r.Outcome = abi.OutcomePartial
	}
	return r
}

// outcomeOf says what kind of failure an error is.
func outcomeOf(err error) uint32 {
	var (
		status   *statusError
		protocol *protocolError
		refused  *refusedError
		moved    *movedError
		pack     *gitrepo.Refused
	)
	of := throttle.Outcome(err)
	switch {
	case errors.As(err, &status):
		return OutcomeOfStatus(status.status)
	case errors.As(err, &moved), errors.Is(err, errQuota):
		return abi.OutcomeNotFound
	case errors.As(err, &refused), errors.Is(err, errPrivate):
		return abi.OutcomeRefused
	case errors.As(err, &protocol), errors.Is(err, errTalk):
		return abi.OutcomeProtocol
	case errors.Is(err, errBytes), errors.Is(err, errObjects), errors.Is(err, errRefs), errors.As(err, &pack):
		return abi.OutcomeTooLarge
	case errors.Is(err, errTime), errors.Is(err, errStalled), errors.Is(err, errQuiet), errors.Is(err, errOthers):
		return abi.OutcomeTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, errCrowded), errors.As(err, new(*laterError)):
		return abi.OutcomeUnspecified // we are shutting down, or others use the same address
	case of != abi.OutcomeUnspecified:
		return of
	case strings.Contains(err.Error(), "tls: "):
		return abi.OutcomeTLS
	case errors.As(err, new(*net.OpError)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), strings.Contains(err.Error(), "server closed idle connection"):
		return abi.OutcomeUnreachable
	}
	return abi.OutcomeProtocol // what net/http makes of an answer that is not HTTP
}

// OutcomeOfStatus returns the outcome of an HTTP status.
func OutcomeOfStatus(status int) uint32 {
	switch {
	case status == http.StatusTooManyRequests:
		return abi.OutcomeRateLimited
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired,
		status == http.StatusUnavailableForLegalReasons, status == http.StatusPaymentRequired:
		return abi.OutcomeRefused
	case status == http.StatusNotFound, status == http.StatusGone:
		return abi.OutcomeNotFound
	case status >= 500 && status < 600:
		return abi.OutcomeServer
	}
	return abi.OutcomeProtocol
}

// localFailure reports whether an error of git is about this machine, not about the server.
func localFailure(err error) bool {
	var failure *gitrepo.Failure
	if !errors.As(err, &failure) {
		return true
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, context.Canceled) {
		return true
	}
	for _, text := range []string{"No space left on device", "Disk quota exceeded", "Read-only file system", "Input/output error", "Too many open files"} {
		// Git writes "remote: " before the text of a server.
		if at := strings.Index(failure.Stderr, text); at >= 0 && !strings.Contains(failure.Stderr[:at], "remote:") {
			return true
		}
	}
	return false
}

const maxReason = 256

// reason returns an error as one short line, without the secret of a session.
func reason(err error) string {
	if err == nil {
		return ""
	}
	var failure *gitrepo.Failure
	text := err.Error()
	if errors.As(err, &failure) && failure.Stderr != "" {
		text = "git: " + failure.Stderr
	}
	for {
		at := strings.Index(text, "http://127.0.0.1:")
		if at < 0 {
			break
		}
		end := at
		for end < len(text) && text[end] > ' ' && text[end] != '\'' && text[end] != '"' {
			end++
		}
		text = text[:at] + "the server" + text[end:]
	}
	text = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text), "?")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	return text
}
