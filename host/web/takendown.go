package web

import (
	"net/http"
	"strings"

	"talon/host"
	"talon/host/gitread"
	"talon/host/moderation"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// takenDown answers a request for anything of a repository or an author that the operator has taken
// down, with the reason (status 451). It reports whether it was one.
func (h *Handler) takenDown(w http.ResponseWriter, r *http.Request) bool {
	what, row := "repository", (*moderation.Row)(nil)
	now, path := h.cfg.Now().Unix(), r.URL.EscapedPath()
	if repo, ok := repositoryOf(path); ok {
		row = h.repositoryDown(r, repo, now)
	} else if key, err := nip19.DecodeNpub(strings.Trim(path, "/")); err == nil {
		what, row = "author", h.cfg.Moderation.Author(key, now)
	}
	if row == nil {
		return false
	}
	h.answer(w, r, http.StatusUnavailableForLegalReasons, "message", message{
		"Taken down",
		"This " + what + " was " + line(row.Text(), maxReason) + ".",
		"The operator of this server can say more.",
	})
	return true
}

// repositoryDown returns the row that has taken a repository down, nil if it is not.
func (h *Handler) repositoryDown(r *http.Request, repo grasp.Repo, now int64) *moderation.Row {
	if row := h.cfg.Moderation.Repository(host.PubKey(repo.PubKey), repo.Identifier, now); row != nil {
		return row
	}
	row := h.cfg.Moderation.Purged(host.PubKey(repo.PubKey), repo.Identifier, now)
	if row == nil {
		return nil
	}
	// It may be announced again since.
	if a, err := h.read.announced(r.Context(), repo); err != nil || a.stored != nil || a.held != nil {
		return nil
	}
	return row
}

// objectDown is the answer to a request that would show a git object that the operator has taken down.
func objectDown(down *gitread.TakenDown) message {
	return message{
		"Taken down",
		"This would show the git object " + down.ID + ", which was " + line(down.Text, maxReason) + ".",
		"The operator of this server can say more.",
	}
}

// Purged removes what is kept on disk of the code of repositories, one of which was purged.
func (h *Handler) Purged() error { return h.archives.DropArchives() }

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
