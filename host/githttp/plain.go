package githttp

import (
	"context"
	"errors"
	"net/http"

	"talon/host/gitrepo"
)

// servePlainPush has git receive-pack answer a push, in its own words. A client that goes
// away ends it: then git has changed all refs of an atomic push or none, and of another
// maybe some.
func (h *Handler) servePlainPush(w http.ResponseWriter, r *http.Request, parts []string, in *body) result {
	ctx, stop := context.WithTimeoutCause(r.Context(), h.limits.Whole, errSlow)
	defer stop()
	out := h.answer(w)
	defer out.end()

	repo, err := h.find(ctx, parts, PushTo)
	if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
		head(w, pushAnswer)
		_, _ = out.Write(appendError(nil, refusal.Reason))
		return resultRefused
	}
	if h.missing(w, r, err) {
		return resultNotFound
	}
	if err != nil {
		return h.internal(w, r, err)
	}
	return h.exchange(ctx, w, r, in, out, h.writes, pushAnswer, verbPush, func(ctx context.Context) (*gitrepo.Process, error) {
		return repo.ReceivePack(ctx, protocolOf(r), h.cfg.Client(r).Addr)
	})
}
