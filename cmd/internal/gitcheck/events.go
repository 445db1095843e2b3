package gitcheck

import (
	"context"

	"talon/host"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// How many announcements of one identifier, and how many held states, are looked at:
// anybody may send them. The owners' own are always among them.
const (
	maxAnnouncements = 10_000
	maxStates        = 10_000
	idsAtOnce        = 200
)

// standing is how an announcement stands that is in purgatory.
type standing struct {
	dormant bool // its repository has gone, or is to
	there   bool // it has a repository
	repo    grasp.Repo
}

// readHeld reads what one look needs of everything that waits.
func (l *looker) readHeld(ctx context.Context) error {
	l.held = make(map[string]standing)
	err := l.cfg.Events.EachHeld(ctx, func(h host.HeldEvent) error {
		e, err := wire.ParseEvent(h.JSON)
		if err != nil {
			return nil // the check of events says so
		}
		if a, err := e.Announcement(); err == nil {
			l.held[key(a.Repo(), false)] = standing{dormant: h.Dormant, repo: a.Repo()}
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.waits = make(map[placeholder]bool)
	return l.cfg.Events.Placeholders(ctx, func(repo string, id host.ID, _ int64) error {
		l.waits[placeholder{repo, id}] = true
		return nil
	})
}

// announcements are those of one identifier.
type announcements struct {
	graph  *grasp.Graph
	stored map[grasp.PubKey]bool
}

// announcements reads those of the place's identifier.
func (l *looker) announcements(ctx context.Context, p *location) (*announcements, error) {
	if l.known != nil && l.identifier == p.Identifier {
		return l.known, nil
	}
	known := &announcements{stored: make(map[grasp.PubKey]bool)}
	var list []*grasp.Announcement
	add := func(e *host.Event, held bool) {
		a, err := e.Announcement()
		if err != nil {
			return
		}
		list = append(list, a)
		if !held {
			known.stored[a.PubKey] = true
		}
	}
	filter := ofIdentifier(grasp.KindAnnouncement, p.Identifier)
	filter.Limit = maxAnnouncements
	err := l.events(ctx, filter, add)
	l.identifier, l.known = p.Identifier, known
	if err == nil && len(list) >= maxAnnouncements {
		// The owner may not be among these, nor may the next one.
		filter.Authors = []host.PubKey{p.PubKey}
		err = l.events(ctx, filter, add)
		l.known = nil
	}
	known.graph = grasp.NewGraph(list)
	return known, err
}

// states returns the states of a repository by its maintainers: the newest that is
// stored, nil if there is none, and held ones that are newer.
func (l *looker) states(ctx context.Context, identifier string, maintainers []grasp.PubKey) (newest *grasp.State, held []*grasp.State, err error) {
	if len(maintainers) == 0 {
		return nil, nil, nil
	}
	filter := ofIdentifier(grasp.KindState, identifier)
	for _, key := range maintainers {
		filter.Authors = append(filter.Authors, key)
	}
	filter.Limit = maxStates
	var stored, waiting []*grasp.State
	err = l.events(ctx, filter, func(e *host.Event, held bool) {
		s, err := e.State()
		switch {
		case err != nil || !s.Tracks():
		case held:
			waiting = append(waiting, s)
		default:
			stored = append(stored, s)
		}
	})
	newest = grasp.Latest(stored, maintainers)
	for _, s := range waiting {
		if newest == nil || s.Newer(&newest.Stamp) {
			held = append(held, s)
		}
	}
	return newest, held, err
}

// tip is what a ref under refs/nostr/ is to name.
type tip struct {
	*grasp.PullRequest // nil if the event is none
}

// tips returns the events with these ids, as far as they are here.
func (l *looker) tips(ctx context.Context, ids []host.ID) (map[host.ID]tip, error) {
	found := make(map[host.ID]tip, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), idsAtOnce)
		err := l.events(ctx, host.Filter{IDs: ids[:n], Limit: -1}, func(e *host.Event, _ bool) {
			pr, err := e.PullRequest()
			if err != nil {
				pr = nil
			}
			found[e.ID] = tip{pr}
		})
		if err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return found, nil
}

func ofIdentifier(kind host.Kind, identifier string) host.Filter {
	return host.Filter{Kinds: []host.Kind{kind}, Tags: []host.TagFilter{{Name: 'd', Values: []string{identifier}}}}
}

// events calls yield with what is held and what is stored. An event that is released
// in between comes twice.
func (l *looker) events(ctx context.Context, filter host.Filter, yield func(e *host.Event, held bool)) error {
	give := func(text []byte, held bool) {
		// One that cannot be read is for the check of events.
		if e, err := wire.ParseEvent(text); err == nil {
			yield(e, held)
		}
	}
	held, err := l.cfg.Events.HeldBy(ctx, filter)
	if err != nil {
		return err
	}
	for _, text := range held {
		give(text, true)
	}
	sel, err := l.cfg.Events.Select(ctx, []host.Filter{filter}, l.now)
	if err != nil {
		return err
	}
	return l.cfg.Events.Fetch(ctx, sel.Rows, func(_ int64, text []byte) error {
		give(text, false)
		return nil
	})
}
