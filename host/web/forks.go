package web

import (
	"context"
	"net/http"
	"strings"

	"talon/host"
	"talon/host/gitread"
	"talon/host/web/code"
	"talon/sdk/grasp"
	"talon/sdk/nip19"
)

// maxForks bounds the repositories of an identifier that a page names.
const maxForks = 20

// fork returns a request for the repository of the same identifier of another owner, if it may be
// seen: it is announced, here, and not taken down.
func (h *Handler) fork(ctx context.Context, r *http.Request, of grasp.Repo, npub string) (*code.Request, error) {
	key, err := nip19.DecodeNpub(npub)
	if err != nil {
		return nil, gitread.ErrNotFound
	}
	repo := grasp.Repo{PubKey: grasp.PubKey(key), Identifier: of.Identifier}
	if h.repositoryDown(r, repo, h.cfg.Now().Unix()) != nil {
		return nil, gitread.ErrNotFound
	}
	return h.codeRequest(ctx, r, below{repo: repo})
}

// forks returns the repositories of the same identifier of other owners that are here.
func (h *Handler) forks(ctx context.Context, r *http.Request, of grasp.Repo) (list []code.Fork, err error) {
	var keys []host.PubKey
	var failed error
	f := host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}, Tags: []host.TagFilter{{Name: 'd', Values: []string{of.Identifier}}}}
	_, err = h.read.each(ctx, f, maxForks, func(e *host.Event) bool {
		repo := grasp.Repo{PubKey: grasp.PubKey(e.PubKey), Identifier: of.Identifier}
		if repo.PubKey == of.PubKey || h.repositoryDown(r, repo, h.cfg.Now().Unix()) != nil {
			return true
		}
		var here bool
		if here, failed = h.git.Here(ctx, address(repo)); here {
			keys = append(keys, e.PubKey)
		}
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	people, err := h.read.profiles(ctx, keys)
	for _, key := range keys {
		p := people[key]
		list = append(list, code.Fork{
			Npub: p.Npub, Name: strings.TrimSpace(p.Name + " " + p.Short()), Path: basePath(grasp.Repo{PubKey: grasp.PubKey(key), Identifier: of.Identifier}),
		})
	}
	return list, err
}
