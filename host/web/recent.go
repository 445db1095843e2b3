package web

import (
	"context"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"talon/host"
	"talon/host/maintainers"
	"talon/sdk/grasp"
)

const (
	maxListed  = 20  // repositories on a page
	maxScanned = 120 // announcements and states that are looked at for them
)

// listed is a repository in a list.
type listed struct {
	Path    template.URL
	Name    string
	Summary string
	Owner   person
	At      moment // of its last change

	owner   host.PubKey
	address host.Address
	changed int64
}

// recent lists the repositories that are here, or those of an owner, by their last change before a
// time. A change is a state that a maintainer signed, or the announcement. It also returns the
// query of the next page.
func (h *Handler) recent(ctx context.Context, owner *host.PubKey, until *int64) (list []listed, next string, err error) {
	f := host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement, grasp.KindState}, Until: until}
	if owner != nil {
		// The states of other maintainers are found as those of the announcements.
		f.Kinds, f.Authors = f.Kinds[:1], []host.PubKey{*owner}
	}
	var failed error
	seen := make(map[grasp.Repo]bool)
	last := int64(0)
	more, err := h.read.each(ctx, f, maxScanned, func(e *host.Event) bool {
		last = e.CreatedAt
		if len(list) >= maxListed {
			return false
		}
		var repos []grasp.Repo
		if repos, failed = h.changedBy(ctx, e); failed != nil {
			return false
		}
		for _, repo := range repos {
			if seen[repo] {
				continue
			}
			seen[repo] = true
			var item *listed
			if item, failed = h.listed(ctx, repo); failed != nil {
				return false
			}
			// It was on a page before if it changed later. The list of an owner is by announcements.
			if item != nil && (owner != nil || until == nil || item.changed <= *until) {
				list = append(list, *item)
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, "", err
	}
	slices.SortStableFunc(list, func(a, b listed) int { return int(max(min(b.changed-a.changed, 1), -1)) })
	var keys []host.PubKey
	for i := range list {
		keys = append(keys, list[i].owner)
	}
	people, err := h.read.profiles(ctx, keys)
	if err != nil {
		return nil, "", err
	}
	for i := range list {
		list[i].Owner = people[list[i].owner]
	}
	if at := before(last, until); more && at != nil {
		next = "?until=" + strconv.FormatInt(*at, 10)
	}
	return list, next, nil
}

// changedBy returns the repositories that an announcement or a state changes, whether they are
// here or not.
func (h *Handler) changedBy(ctx context.Context, e *host.Event) (repos []grasp.Repo, err error) {
	if e.Kind == grasp.KindAnnouncement {
		a, err := e.Announcement()
		if err != nil {
			return nil, nil
		}
		return []grasp.Repo{{PubKey: a.PubKey, Identifier: strings.Clone(a.Identifier)}}, nil
	}
	s, err := e.State()
	if err != nil {
		return nil, nil
	}
	identifier := strings.Clone(s.Identifier)
	owners, err := maintainers.Owners(ctx, h.read.facts, identifier, s.PubKey)
	for _, o := range owners {
		repos = append(repos, grasp.Repo{PubKey: o.PubKey, Identifier: identifier})
	}
	return repos, err
}

// listed returns a repository as lists show it, nil if it is not served here.
func (h *Handler) listed(ctx context.Context, repo grasp.Repo) (*listed, error) {
	if here, err := h.git.Here(ctx, address(repo)); err != nil || !here {
		return nil, err
	}
	a, err := h.read.announced(ctx, repo)
	if err != nil || a.stored == nil {
		return nil, err
	}
	item := &listed{
		Path:    template.URL(repo.Path()),
		Name:    strings.Clone(orElse(line(a.stored.Name, maxName), identifier(repo.Identifier))),
		Summary: strings.Clone(line(a.stored.Description, maxSummary)),
		owner:   host.PubKey(repo.PubKey),
		address: address(repo),
		changed: a.stored.CreatedAt,
	}
	state, err := h.read.state(ctx, repo, a.maintainers)
	if err != nil {
		return nil, err
	}
	if state != nil {
		item.changed = max(item.changed, state.CreatedAt)
	}
	item.At = at(item.changed)
	return item, nil
}
