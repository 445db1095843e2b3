package repos

import (
	"context"
	"fmt"

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
		if !ok || c.Awaits { // a module holds it, and may never want it
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
		if h.Wake != nil {
			return nil
		}
		e, err := wire.ParseEvent(h.JSON)
		if err != nil {
			return fmt.Errorf("an event that is here does not parse: %w", err)
		}
		event, ok := Hunted(e, h.Synced)
		if !ok {
			return nil
		}
		event.Since = h.Since
		return yield(event)
	})
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
