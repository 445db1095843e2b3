package repos

import (
	"context"
	"fmt"
	"time"

	"talon/host"
	"talon/host/githttp"
	"talon/host/gitrepo"
	"talon/host/grasp"
	"talon/host/maintainers"
	"talon/host/wire"
	rules "talon/sdk/grasp"
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
func (f *Reconciler) announcements(ctx context.Context, identifier string, owners ...rules.PubKey) ([]maintainers.Announced, error) {
	var list []maintainers.Announced
	seen := make(map[host.ID]bool)
	filter := host.Filter{
		Kinds: []host.Kind{rules.KindAnnouncement},
		Tags:  []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
		Limit: maxAnnouncements,
	}
	for range 2 {
		err := f.storedAndHeld(ctx, filter, func(e *host.Event, held bool) {
			a, err := rules.ParseAnnouncement(grasp.Event(e))
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
		filter.Authors = hostKeys(owners)
	}
	return list, nil
}

// storedAndHeld reads what is stored and what is held.
func (f *Reconciler) storedAndHeld(ctx context.Context, filter host.Filter, yield func(e *host.Event, held bool)) error {
	held, err := f.cfg.Store.HeldBy(ctx, filter)
	if err != nil {
		return err
	}
	stored, err := f.cfg.Store.Query(ctx, filter)
	if err != nil {
		return err
	}
	for i, text := range append(held, stored...) {
		e, err := wire.ParseEvent(text)
		if err != nil {
			return fmt.Errorf("an event that is here does not parse: %w", err)
		}
		yield(e, i < len(held))
	}
	return nil
}

func graph(list []maintainers.Announced) *rules.Graph {
	all := make([]*rules.Announcement, len(list))
	for i, a := range list {
		all[i] = a.Announcement
	}
	return rules.NewGraph(all)
}

// own returns the newest announcement of the owner, nil if there is none.
func own(list []maintainers.Announced, owner rules.PubKey) *maintainers.Announced {
	var newest *maintainers.Announced
	for i := range list {
		if a := &list[i]; a.PubKey == owner && (newest == nil || a.Newer(&newest.Stamp)) {
			newest = a
		}
	}
	return newest
}

// stored returns the owner's announcement that is served, nil if there is none.
func stored(list []maintainers.Announced, owner rules.PubKey) *maintainers.Announced {
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
func (f *Reconciler) isOnlyOwner(ctx context.Context, repo rules.Repo) (bool, error) {
	filter := host.Filter{
		Kinds: []host.Kind{host.KindAnnouncement}, Tags: []host.TagFilter{{Name: 'd', Values: []string{repo.Identifier}}},
		Limit: maxAlone, Header: true,
	}
	n, others := 0, false
	err := f.storedAndHeld(ctx, filter, func(e *host.Event, _ bool) {
		n++
		others = others || e.PubKey != repo.PubKey
	})
	if err != nil {
		return false, fmt.Errorf("look for announcements: %w", err)
	}
	return !others && n < maxAlone, nil
}

// states returns the states of an identifier by its maintainers, stored and held.
func (f *Reconciler) states(ctx context.Context, identifier string, maintainers []rules.PubKey) ([]rules.Candidate, error) {
	if len(maintainers) == 0 {
		return nil, nil
	}
	filter := host.Filter{
		Kinds:   []host.Kind{rules.KindState},
		Tags:    []host.TagFilter{{Name: 'd', Values: []string{identifier}}},
		Authors: hostKeys(maintainers),
		Limit:   maxStates,
	}
	var list []rules.Candidate
	err := f.storedAndHeld(ctx, filter, func(e *host.Event, held bool) {
		if s, err := rules.ParseState(grasp.Event(e)); err == nil && s.Identifier == identifier {
			list = append(list, rules.Candidate{State: s, Served: !held})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for states: %w", err)
	}
	return list, nil
}

func hostKeys(keys []rules.PubKey) []host.PubKey {
	list := make([]host.PubKey, len(keys))
	for i, key := range keys {
		list[i] = key
	}
	return list
}

// pull is a pull request or an update of one.
type pull struct {
	*rules.PullRequest
	held bool
}

// pulls returns all pull requests that name a repository.
func (f *Reconciler) pulls(ctx context.Context, repo rules.Repo) ([]pull, error) {
	filter := host.Filter{
		Kinds: []host.Kind{rules.KindPullRequest, rules.KindPRUpdate},
		Tags:  []host.TagFilter{{Name: 'a', Values: []string{repo.Address()}}},
		Limit: maxPullRequests,
	}
	var list []pull
	err := f.storedAndHeld(ctx, filter, func(e *host.Event, held bool) {
		if pr, err := rules.ParsePullRequest(grasp.Event(e)); err == nil {
			list = append(list, pull{pr, held})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("look for pull requests: %w", err)
	}
	return list, nil
}

// pull returns the event with this id, and whether one is here. Of another event than
// a pull request the pull is empty.
func (f *Reconciler) pull(ctx context.Context, id host.ID) (p pull, known bool, err error) {
	text, err := f.cfg.Store.Get(ctx, id)
	if err == nil && text == nil {
		p.held = true
		text, err = f.cfg.Store.Held(ctx, id)
	}
	if err != nil {
		return pull{}, false, fmt.Errorf("look for a pull request: %w", err)
	}
	if text == nil {
		return pull{}, false, nil
	}
	e, err := wire.ParseEvent(text)
	if err != nil {
		return pull{}, false, fmt.Errorf("an event that is here does not parse: %w", err)
	}
	if pr, err := rules.ParsePullRequest(grasp.Event(e)); err == nil {
		p.PullRequest = pr
	}
	return p, true, nil
}

// How long a request waits for jobs of its repository: to be made, or to be brought
// up to date.
const (
	makeTime   = 10 * time.Second
	updateTime = 250 * time.Millisecond
)

// Find returns the repository of a path (githttp.Repositories).
func (f *Reconciler) Find(ctx context.Context, parts []string, use githttp.Use) (*gitrepo.Repo, error) {
	p, ok := f.locationOfPath(parts)
	if !ok {
		return nil, gitrepo.ErrNotFound
	}
	repo, err := f.disk.repo(p)
	if err != nil {
		return nil, gitrepo.ErrNotFound
	}
	there, err := repo.Exists()
	if err != nil {
		return nil, err
	}
	wait := makeTime
	if there {
		wait = updateTime
	}
	f.jobs.waitIdle(ctx, identifier(p.Identifier), wait)
	f.jobs.waitIdle(ctx, p, wait)
	if there, err = repo.Exists(); err != nil || there {
		return repo, err
	}
	if !p.prs && f.cfg.Nodes != nil {
		if there, err = f.makeHere(ctx, p, repo); err != nil || there {
			return repo, err
		}
	}
	if !p.prs {
		return nil, gitrepo.ErrNotFound
	}
	if use == githttp.PushTo {
		return repo, nil // Authorize makes it
	}
	return f.disk.empty, nil
}

// makeHere makes a repository whose announcement came to another node a moment ago.
func (f *Reconciler) makeHere(ctx context.Context, p location, repo *gitrepo.Repo) (bool, error) {
	list, err := maintainers.Below(ctx, f.cfg.Store, p.Identifier, p.PubKey)
	if err != nil {
		return false, err
	}
	if mine := own(list, p.PubKey); mine == nil || !mine.Held {
		return false, nil
	}
	f.jobs.enqueue(p, task{})
	f.jobs.waitIdle(ctx, p, makeTime)
	return repo.Exists()
}

// Here reports whether the repository of an announcement exists. It waits for the job
// that makes it.
func (f *Reconciler) Here(ctx context.Context, a host.Address) (bool, error) {
	here, err := f.disk.Here(ctx, a)
	if here || err != nil {
		return here, err
	}
	f.jobs.waitIdle(ctx, location{Repo: rules.Repo{PubKey: a.PubKey, Identifier: a.D}}, updateTime)
	return f.disk.Here(ctx, a)
}

// Refs returns the refs of the repository of an announcement: see Disk.Refs.
func (f *Reconciler) Refs(ctx context.Context, a host.Address) (refs []rules.Ref, head string, here bool, err error) {
	f.jobs.waitIdle(ctx, location{Repo: rules.Repo{PubKey: a.PubKey, Identifier: a.D}}, updateTime)
	return f.disk.Refs(ctx, a)
}

// locationOfPath returns the place that the decoded parts of a path name.
func (f *Reconciler) locationOfPath(parts []string) (location, bool) {
	prs := len(parts) == 3 && parts[0] == "prs" && f.disk.PRs != nil
	if prs {
		parts = parts[1:]
	}
	name, err := gitrepo.ParsePath(parts)
	if err != nil {
		return location{}, false
	}
	return locationOf(name, prs)
}
