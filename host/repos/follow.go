package repos

import (
	"context"
	"slices"

	"talon/host"
	"talon/host/grasp"
	"talon/host/maintainers"
	rules "talon/sdk/grasp"
)

// Publish enqueues the jobs of events that are served now.
func (f *Reconciler) Publish(events []host.Published) {
	for _, p := range events {
		f.onEvent(p.Event, task{})
	}
}

// Follow enqueues the jobs of removed events, and of those in purgatory. An event that
// was answered has its jobs already.
func (f *Reconciler) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, e := range removed {
		if e.Kind == rules.KindState {
			continue // the refs stay until a newer one moves them
		}
		f.onEvent(e, removalTask(e))
	}
	for _, c := range held {
		switch c.Status {
		case host.StatusHeld, host.StatusRevived:
			f.onEvent(c.Event, task{})
		case host.StatusDormant, host.StatusExpired, host.StatusDeleted:
			f.onEvent(c.Event, removalTask(c.Event))
		}
	}
}

func removalTask(e *host.Event) task {
	if e.Kind == rules.KindAnnouncement {
		return task{removed: true}
	}
	return task{removedPulls: setOf(e.ID)}
}

// onEvent asks for the jobs of an event that came or went.
func (f *Reconciler) onEvent(e *host.Event, t task) {
	switch e.Kind {
	case rules.KindAnnouncement:
		a, err := rules.ParseAnnouncement(grasp.Event(e))
		if err != nil {
			return
		}
		if _, done := f.alreadyReconciled(e); !done {
			f.jobs.enqueue(location{Repo: a.Repo()}, t)
		}
		f.jobs.enqueue(identifier(a.Identifier), task{all: t.all, authors: setOf(a.PubKey), except: setOf(location{Repo: a.Repo()})})
	case rules.KindState:
		s, err := rules.ParseState(grasp.Event(e))
		if err != nil || !s.Tracks() {
			return
		}
		next := task{all: t.all, authors: setOf(s.PubKey)}
		if p, done := f.alreadyReconciled(e); done {
			next.except = setOf(p)
		}
		f.jobs.enqueue(identifier(s.Identifier), next)
	case rules.KindPullRequest, rules.KindPRUpdate:
		pr, err := rules.ParsePullRequest(grasp.Event(e))
		if err != nil {
			return
		}
		from, done := f.alreadyReconciled(e)
		t.ids = setOf(e.ID)
		for _, repo := range pr.Repos {
			if p := (location{Repo: repo}); !done || p != from {
				f.jobs.enqueue(p, t)
			}
		}
		if repo, ok := pr.PRsRepo(f.cfg.Service); ok && f.disk.PRs != nil {
			if p := (location{Repo: repo, prs: true}); !done || p != from {
				f.jobs.enqueue(p, t)
			}
		}
	}
}

// alreadyReconciled returns the place whose own job releases an event.
func (f *Reconciler) alreadyReconciled(e *host.Event) (location, bool) {
	p, ok := f.inFlightReleases.Load(e.ID)
	if !ok {
		return location{}, false
	}
	return p.(location), true
}

// fanOut asks for the jobs of all repositories of an identifier that some authors
// maintain.
func (f *Reconciler) fanOut(ctx context.Context, identifier string, t task) error {
	for author := range t.authors {
		// Whom the author counts as a maintainer too is found however many others name it.
		list, err := maintainers.Below(ctx, f.cfg.Store, identifier, author)
		if err != nil {
			return err
		}
		g := graph(list)
		counts, owners := g.Maintainers(author), g.Owners(author)
		named, err := maintainers.Owners(ctx, f.cfg.Store, identifier, author)
		if err != nil {
			return err
		}
		served := make(map[rules.PubKey]bool)
		for _, owner := range named {
			served[owner.PubKey] = !owner.Held
			if !slices.Contains(owners, owner.PubKey) {
				owners = append(owners, owner.PubKey)
			}
		}
		strangers := 0
		for _, owner := range owners {
			p := location{Repo: rules.Repo{PubKey: owner, Identifier: identifier}}
			if _, done := t.except[p]; done {
				continue
			}
			if !served[owner] && !slices.Contains(counts, owner) {
				if strangers++; strangers > maxStrangers {
					continue
				}
			}
			f.jobs.enqueue(p, task{all: t.all})
		}
	}
	return nil
}

// maxStrangers bounds the repositories that follow an author whom their owners name and
// who does not name them, as long as nobody serves their announcements: naming a busy
// maintainer a thousand times must not make each of that person's pushes a thousand.
const maxStrangers = 32
