package web

import (
	"net/http"

	"talon/host"
	"talon/sdk/grasp"
)

// takenDown answers a request for anything of a repository that the operator has taken down, with
// the reason (status 451). It reports whether it was one.
func (h *Handler) takenDown(w http.ResponseWriter, r *http.Request) bool {
	repo, ok := repositoryOf(r.URL.EscapedPath())
	if !ok {
		return false
	}
	now := h.cfg.Now().Unix()
	row := h.cfg.Moderation.Repository(host.PubKey(repo.PubKey), repo.Identifier, now)
	if row == nil {
		if row = h.cfg.Moderation.Removed(host.PubKey(repo.PubKey), repo.Identifier, now); row == nil {
			return false
		}
		// It may be announced again since.
		if a, err := h.read.announced(r.Context(), repo); err != nil || a.stored != nil || a.held != nil {
			return false
		}
	}
	h.answer(w, r, http.StatusUnavailableForLegalReasons, "message", message{
		"Taken down",
		"This repository was " + line(row.Text(), maxReason) + ".",
		"The operator of this server can say more.",
	})
	return true
}

// maxReason bounds the reason on a page, in characters.
const maxReason = 1100

// repositoryOf returns the repository that a path is about.
func repositoryOf(escaped string) (grasp.Repo, bool) {
	if p, ok := parsePath(escaped); ok {
		return p.Repo, true
	}
	at, ok := parseBelow(escaped)
	return at.repo, ok
}
