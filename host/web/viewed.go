package web

import (
	"context"
	"slices"
	"strings"
	"sync"

	"talon/host"
	"talon/host/gitrepo"
	"talon/internal/recent"
	"talon/sdk/grasp"
)

const (
	// maxViewed is how many identifiers are remembered whose pages somebody looked at, and
	// maxViewedEach how many repositories of one.
	maxViewed     = 512
	maxViewedEach = 8
)

// viewed remembers the repositories whose code somebody looked at lately: their pages are prepared
// after a push.
type viewed struct {
	mu   sync.Mutex                         // guards kept
	kept recent.Map[string, []host.Address] // by identifier
}

func newViewed() *viewed { return &viewed{kept: recent.Map[string, []host.Address]{Size: maxViewed}} }

// add notes that somebody looks at a repository.
func (v *viewed) add(repo host.Address) {
	v.mu.Lock()
	defer v.mu.Unlock()
	list, aging, _ := v.kept.Get(repo.D)
	known := slices.Contains(list, repo)
	if known && !aging || !known && len(list) == maxViewedEach {
		return
	}
	if !known {
		list = append(slices.Clone(list), repo)
	}
	v.kept.Add(strings.Clone(repo.D), list, 1)
}

// of returns the repositories of an identifier that somebody looked at.
func (v *viewed) of(identifier string) []host.Address {
	v.mu.Lock()
	defer v.mu.Unlock()
	list, _, _ := v.kept.Get(identifier)
	return list
}

// prepareAfter has pages prepared of repositories that a state changes. A state is published when its
// refs are on disk.
func (h *Handler) prepareAfter(e *host.Event) {
	if e.Kind != grasp.KindState {
		return
	}
	s, err := e.State()
	if err != nil {
		return
	}
	for _, repo := range h.viewed.of(s.Identifier) {
		h.prepare(repo.String(), func(ctx context.Context) (*gitrepo.Repo, error) { return h.git.Repository(ctx, repo) })
	}
}
