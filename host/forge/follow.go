package forge

import (
	"context"
	"slices"

	"talon/host"
	"talon/host/grasp"
	"talon/host/maintainers"
	rules "talon/sdk/grasp"
)

// Publish asks for the jobs of events that are served now.
func (f *Forge) Publish(events []host.Published) {
	for _, p := range events {
		f.happened(p.Event, task{})
	}
}

// Follow asks for the jobs of events that went, and of those in purgatory. An event
// that was answered has its jobs already.
func (f *Forge) Follow(removed []*host.Event, held []host.HeldChange) {
	for _, e := range removed {
		if e.Kind == rules.KindState {
			continue // the refs stay until a newer one moves them
		}
		f.happened(e, gone(e))
	}
	for _, c := range held {
		switch c.Fate {
		case host.FateHeld, host.FateRevived:
			f.happened(c.Event, task{})
		case host.FateDormant, host.FateExpired, host.FateDeleted:
			f.happened(c.Event, gone(c.Event))
		}
	}
}

func gone(e *host.Event) task {
	if e.Kind == rules.KindAnnouncement {
		return task{removed: true}
	}
	return task{gone: only(e.ID)}
}

// happened asks for the jobs of an event that came or went.
func (f *Forge) happened(e *host.Event, t task) {
	switch e.Kind {
	case rules.KindAnnouncement:
		a, err := rules.ParseAnnouncement(grasp.Event(e))
		if err != nil {
			return
		}
		if _, done := f.inLine(e); !done {
			f.jobs.add(place{Repo: a.Repo()}, t)
		}
		f.jobs.add(identifier(a.Identifier), task{all: t.all, authors: only(a.PubKey), except: only(place{Repo: a.Repo()})})
	case rules.KindState:
		s, err := rules.ParseState(grasp.Event(e))
		if err != nil || !s.Tracks() {
			return
		}
		next := task{all: t.all, authors: only(s.PubKey)}
		if p, done := f.inLine(e); done {
			next.except = only(p)
		}
		f.jobs.add(identifier(s.Identifier), next)
	case rules.KindPullRequest, rules.KindPRUpdate:
		pr, err := rules.ParsePullRequest(grasp.Event(e))
		if err != nil {
			return
		}
		from, done := f.inLine(e)
		t.ids = only(e.ID)
		for _, repo := range pr.Repos {
			if p := (place{Repo: repo}); !done || p != from {
				f.jobs.add(p, t)
			}
		}
		if repo, ok := pr.PRsRepo(f.cfg.Service); ok && f.disk.PRs != nil {
			if p := (place{Repo: repo, prs: true}); !done || p != from {
				f.jobs.add(p, t)
			}
		}
	}
}

// inLine returns the place whose own job releases an event.
func (f *Forge) inLine(e *host.Event) (place, bool) {
	p, ok := f.ours.Load(e.ID)
	if !ok {
		return place{}, false
	}
	return p.(place), true
}

// spread asks for the jobs of all repositories of an identifier that some authors
// maintain.
func (f *Forge) spread(ctx context.Context, identifier string, t task) error {
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
			p := place{Repo: rules.Repo{PubKey: owner, Identifier: identifier}}
			if _, done := t.except[p]; done {
				continue
			}
			if !served[owner] && !slices.Contains(counts, owner) {
				if strangers++; strangers > maxStrangers {
					continue
				}
			}
			f.jobs.add(p, task{all: t.all})
		}
	}
	return nil
}

// maxStrangers bounds the repositories that follow an author whom their owners name and
// who does not name them, as long as nobody serves their announcements: naming a busy
// maintainer a thousand times must not make each of that person's pushes a thousand.
const maxStrangers = 32
