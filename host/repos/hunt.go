package repos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"talon/host"
	"talon/host/gitfetch"
	"talon/host/gitrepo"
	"talon/host/maintainers"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// Hunt passes each commit to a hunter (ingest.Follower): events that begin to wait for
// git data, and events that wait no more.
type Hunt struct{ Hunter Hunter }

// Hunter is a *gitfetch.Hunter.
type Hunter interface {
	Held(e gitfetch.Event)
	NoLongerHeld(e gitfetch.Event, released bool)
}

// Publish does nothing: stored events wait for no git data.
func (Hunt) Publish([]host.Published) {}

// Follow passes changes of events in purgatory to the hunter.
func (h Hunt) Follow(_ []*host.Event, held []host.HeldChange) {
	for _, c := range held {
		event, ok := Hunted(c.Event, c.Synced)
		if !ok {
			continue
		}
		switch c.Status {
		case host.StatusHeld:
			h.Hunter.Held(event)
		case host.StatusReleased:
			h.Hunter.NoLongerHeld(event, true)
		case host.StatusExpired, host.StatusDeleted, host.StatusReplaced:
			h.Hunter.NoLongerHeld(event, false)
		}
	}
}

// Hunted returns the search for the git data of an event in purgatory, and false if it
// waits for none. Synced is whether another relay sent it.
func Hunted(e *host.Event, synced bool) (gitfetch.Event, bool) {
	event := gitfetch.Event{Kind: e.Kind, Origin: gitfetch.FromUser}
	if synced {
		event.Origin = gitfetch.FromSync
	}
	switch e.Kind {
	case grasp.KindState:
		event.Repository = host.Address{Kind: grasp.KindAnnouncement, PubKey: e.PubKey, D: e.D()}
	case grasp.KindPullRequest, grasp.KindPRUpdate:
		pr, err := e.PullRequest()
		if err != nil || len(pr.Repos) == 0 {
			return gitfetch.Event{}, false
		}
		event.Repository = host.Address{Kind: grasp.KindAnnouncement, PubKey: pr.Repos[0].PubKey, D: pr.Repos[0].Identifier}
	default:
		return gitfetch.Event{}, false
	}
	return event, true
}

// Waiting calls yield for each event in purgatory that waits for git data
// (gitfetch.Repos).
func (f *Reconciler) Waiting(ctx context.Context, yield func(gitfetch.Event) error) error {
	return f.cfg.Store.EachHeld(ctx, func(h host.HeldEvent) error {
		e, err := wire.ParseEvent(h.JSON)
		if err != nil {
			return fmt.Errorf("an event that is here does not parse: %w", err)
		}
		// The store does not keep the sender. After the time in which a push is expected, that
		// does not matter.
		event, ok := Hunted(e, false)
		if !ok {
			return nil
		}
		event.Since = h.Since
		return yield(event)
	})
}

// Wanted returns what the repositories of an identifier lack, and where it may be
// (gitfetch.Repos).
func (f *Reconciler) Wanted(ctx context.Context, identifier string) ([]gitfetch.Want, error) {
	list, err := f.announcements(ctx, identifier)
	if err != nil {
		return nil, err
	}
	g := maintainers.Graph(list)
	var wants []gitfetch.Want
	seen := make(map[grasp.PubKey]bool)
	for _, a := range list {
		if seen[a.PubKey] {
			continue
		}
		seen[a.PubKey] = true
		p := location{Repo: a.Repo()}
		repo, err := f.disk.repo(p)
		if err != nil {
			continue // no repository can have the name
		}
		there, err := repo.Exists()
		if err != nil {
			return nil, err
		}
		if !there {
			if !a.Held {
				continue
			}
			waits, err := f.disk.waits(ctx, p.address())
			if err != nil {
				return nil, err
			}
			if !waits {
				continue
			}
			// Shared objects may be all that it needs.
			if err := f.await(ctx, f.jobs.enqueue(p, task{})); err != nil {
				return nil, err
			}
			format, err := f.plannedFormat(ctx, p)
			if err != nil {
				return nil, err
			}
			repo = repo.Planned(format)
		}
		more, err := f.wantedBy(ctx, p, repo, list, g.Maintainers(a.PubKey))
		if err != nil {
			return nil, err
		}
		wants = append(wants, more...)
	}
	return wants, nil
}

// wantedBy returns what one repository lacks.
func (f *Reconciler) wantedBy(
	ctx context.Context, p location, repo *gitrepo.Repo, list []maintainers.Announced, maintainers []grasp.PubKey,
) ([]gitfetch.Want, error) {
	urls, strangers := cloneURLs(list, maintainers)
	states, err := f.states(ctx, p.Identifier, maintainers)
	if err != nil {
		return nil, err
	}
	var objects []string
	newest := grasp.Latest(served(states), maintainers)
	for i := range states {
		s := &states[i]
		// An older one takes no effect any more; of those that are served only the newest
		// does, and its data may be missing if it was imported.
		if newest != nil && s.ID != newest.ID && newest.Newer(&s.Stamp) || len(s.Faults) > 0 {
			continue
		}
		missing, err := missing(ctx, repo, s.State)
		if err != nil {
			return nil, err
		}
		objects = append(objects, missing...)
	}
	var wants []gitfetch.Want
	if len(objects) > 0 {
		slices.Sort(objects)
		wants = append(wants, gitfetch.Want{Into: repo, Objects: slices.Compact(objects), URLs: urls, Strangers: strangers})
	}
	pulls, err := f.heldPulls(ctx, p.Repo)
	if err != nil {
		return nil, err
	}
	for _, pr := range pulls {
		there, err := repo.Connected(ctx, pr.Commit)
		if err != nil && !errors.Is(err, gitrepo.ErrNotFound) {
			return nil, err
		}
		if !there {
			wants = append(wants, wantOfPull(repo, pr, urls, strangers))
		}
	}
	return wants, nil
}

// cloneURLs returns the URLs that announcements by the maintainers name. Strangers are those that
// only held announcements name.
func cloneURLs(list []maintainers.Announced, maintainers []grasp.PubKey) (urls []string, strangers map[string][]gitfetch.Namer) {
	strangers, stored := make(map[string][]gitfetch.Namer), make(map[string]bool)
	for _, a := range list {
		if !slices.Contains(maintainers, a.PubKey) {
			continue
		}
		urls = append(urls, a.Clone...)
		for _, u := range a.Clone {
			if stored[u] = stored[u] || !a.Held; !stored[u] {
				strangers[u] = append(strangers[u], gitfetch.Namer{Event: host.ID(a.ID), Author: host.PubKey(a.PubKey)})
			}
		}
	}
	for u := range stored {
		if stored[u] {
			delete(strangers, u)
		}
	}
	return urls, strangers
}

// wantOfPull returns what a held pull request lacks. The request names URLs too. They come
// before those of its repository.
func wantOfPull(into *gitrepo.Repo, pr *grasp.PullRequest, urls []string, strangers map[string][]gitfetch.Namer) gitfetch.Want {
	w := gitfetch.Want{Into: into, Objects: []string{pr.Commit}, URLs: slices.Concat(pr.Clone, urls), Strangers: maps.Clone(strangers)}
	for _, u := range pr.Clone {
		if slices.Contains(urls, u) && strangers[u] == nil {
			continue // a stored announcement names it
		}
		w.Strangers[u] = append(slices.Clone(w.Strangers[u]), gitfetch.Namer{Event: host.ID(pr.ID), Author: host.PubKey(pr.PubKey)})
	}
	return w
}

// Servers calls yield with the clone URLs of all stored announcements (gitfetch.Forge).
func (f *Reconciler) Servers(ctx context.Context, yield func(url string)) error {
	const page = 500
	filter := host.Filter{Kinds: []host.Kind{grasp.KindAnnouncement}, Limit: page}
	for {
		n, oldest := 0, int64(0)
		err := maintainers.Read(ctx, f.cfg.Store.Query, filter, func(e *host.Event) {
			n++
			oldest = e.CreatedAt
			if a, err := e.Announcement(); err == nil {
				for _, u := range a.Clone {
					yield(u)
				}
			}
		})
		if err != nil || n < filter.Limit {
			return err
		}
		if filter.Until != nil && *filter.Until == oldest {
			filter.Limit *= 2 // all of one second
		} else {
			filter.Limit = page
		}
		filter.Until = &oldest
	}
}

func served(states []grasp.Candidate) (list []*grasp.State) {
	for _, s := range states {
		if s.Served {
			list = append(list, s.State)
		}
	}
	return list
}

// missing returns the objects of a state that a repository lacks.
func missing(ctx context.Context, repo *gitrepo.Repo, s *grasp.State) ([]string, error) {
	var all []string
	for _, ref := range s.Refs {
		all = append(all, ref.Object)
	}
	whole, err := repo.Connected(ctx, all...)
	if errors.Is(err, gitrepo.ErrNotFound) {
		return all, nil // it has no folder yet
	}
	if whole || err != nil {
		return nil, err
	}
	found, err := repo.Has(ctx, all...)
	if err != nil {
		return nil, err
	}
	var list []string
	for i, object := range all {
		if !found[i] {
			list = append(list, object)
		}
	}
	if len(list) == 0 {
		return all, nil // they are here, and not all that they refer to
	}
	return list, nil
}

// Arrived reconciles a repository after objects have come into it, and then those that
// share them (gitfetch.Repos).
func (f *Reconciler) Arrived(ctx context.Context, identifier string, into gitfetch.Repository) error {
	repo, ok := into.(*gitrepo.Repo)
	if !ok {
		return fmt.Errorf("objects have come into %s, which is no repository of this service", into.Dir())
	}
	first, ok := locationOf(repo.Name(), false)
	if !ok {
		return fmt.Errorf("objects have come into %s, which has no name", into.Dir())
	}
	if err := f.await(ctx, f.jobs.enqueue(first, task{all: true, newObjects: true})); err != nil {
		return err
	}
	if repo.NeedsRepack() {
		f.jobs.enqueue(repacking(first), task{})
	}
	list, err := f.announcements(ctx, identifier, first.PubKey)
	if err != nil {
		return err
	}
	var others []<-chan struct{}
	for _, a := range list {
		// A held announcement gets a round with the release of a state that counts there.
		if p := (location{Repo: a.Repo()}); p != first && !a.Held {
			others = append(others, f.jobs.enqueue(p, task{}))
		}
	}
	for _, done := range others {
		if err := f.await(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

func (f *Reconciler) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
