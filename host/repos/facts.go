package repos

import (
	"context"
	"fmt"

	"talon/host"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

// Anybody may announce an identifier, and name any pull request: what is looked at
// is bounded, the newest first.
const (
	maxAnnouncements = 500
	maxStates        = 500 // held ones of the maintainers of one repository
	maxPullRequests  = 10_000
)

// announcements returns those of an identifier, stored and held. The owner's own is
// among them, however many others there are.
func (f *Reconciler) announcements(ctx context.Context, identifier string, owners ...grasp.PubKey) ([]maintainers.Announced, error) {
	var list []maintainers.Announced
	seen := make(map[host.ID]bool)
	filter := host.Filter{
		Kinds: []host.Kind{grasp.KindAnnouncement},
		Tags:  []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
		Limit: maxAnnouncements,
	}
	for range 2 {
		err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, held bool) {
			a, err := e.Announcement()
			if err == nil && a.Identifier == identifier && !seen[e.ID] {
				seen[e.ID] = true
				list = append(list, maintainers.Announced{Announcement: a, Held: held})
			}
		})
		if err != nil {
			return nil, fmt.Errorf("look for announcements: %w", err)
		}
		if len(owners) == 0 || len(list) < maxAnnouncements {
			break
		}
		filter.Authors = host.PubKeys(owners)
	}
	return list, nil
}

func graph(list []maintainers.Announced) *grasp.Graph {
	all := make([]*grasp.Announcement, len(list))
	for i, a := range list {
		all[i] = a.Announcement
	}
	return grasp.NewGraph(all)
}

// own returns the newest announcement of the owner, nil if there is none.
func own(list []maintainers.Announced, owner grasp.PubKey) *maintainers.Announced {
	var newest *maintainers.Announced
	for i := range list {
		if a := &list[i]; a.PubKey == owner && (newest == nil || a.Newer(&newest.Stamp)) {
			newest = a
		}
	}
	return newest
}

// stored returns the owner's announcement that is served, nil if there is none.
func stored(list []maintainers.Announced, owner grasp.PubKey) *maintainers.Announced {
	for i := range list {
		if a := &list[i]; a.PubKey == owner && !a.Held {
			return a
		}
	}
	return nil
}

// maxAlone is how many announcements are looked at for another author's: the owner's may
// have the identifier in a second d tag.
const maxAlone = 20

// isOnlyOwner reports whether nobody but the owner announces the identifier.
func (f *Reconciler) isOnlyOwner(ctx context.Context, repo grasp.Repo) (bool, error) {
	filter := host.Filter{
		Kinds: []host.Kind{host.KindAnnouncement}, Tags: []host.TagFilter{{Name: 'd', Values: []string{repo.Identifier}}},
		Limit: maxAlone, Header: true,
	}
	n, others := 0, false
	err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, _ bool) {
		n++
		others = others || e.PubKey != repo.PubKey
	})
	if err != nil {
		return false, fmt.Errorf("look for announcements: %w", err)
	}
	return !others && n < maxAlone, nil
}

// states returns the states of an identifier by its maintainers, stored and held.
func (f *Reconciler) states(ctx context.Context, identifier string, authors []grasp.PubKey) ([]grasp.Candidate, error) {
	if len(authors) == 0 {
		return nil, nil
	}
	filter := host.Filter{
		Kinds:   []host.Kind{grasp.KindState},
		Tags:    []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
		Authors: host.PubKeys(authors),
		Limit:   maxStates,
	}
	var list []grasp.Candidate
	err := maintainers.ReadAll(ctx, f.cfg.Store, filter, func(e *host.Event, held bool) {
		if s, err := e.State(); err == nil && s.Identifier == identifier {
			list = append(list, grasp.Candidate{State: s, Served: !held})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for states: %w", err)
	}
	return list, nil
}
