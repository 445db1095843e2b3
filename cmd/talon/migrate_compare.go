package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"talon/host"
)

const (
	// compareLimit is the limit of each filter that is compared. The new server gets a larger one,
	// since it may have events of other sources.
	compareLimit    = 100
	compareNewLimit = 500
)

// compareFilters has each source and the new server answer the same filters. An event that the
// source gives and the new server does not is a difference, unless it was refused or waits there.
func (m *migration) compareFilters(ctx context.Context) error {
	for _, s := range m.sources {
		if l, ok := s.(*listed); ok && len(l.order) == 0 {
			continue // what waits in purgatory is served nowhere
		}
		filters, err := m.chooseFilters(ctx, s)
		if err != nil {
			return fmt.Errorf("choose filters for %s: %w", s.name(), plainError(err))
		}
		same := 0
		err = s.answers(ctx, filters, func(n int, want []host.ID) error {
			lacks, err := m.lacks(ctx, want, filters[n])
			for _, id := range lacks {
				m.differ("event %s of %s is not at the new server", id, s.name())
			}
			if err == nil && lacks == nil {
				same++
			}
			m.progress.show(func() string { return fmt.Sprintf("%d of %d filters compared", n+1, len(filters)) })
			return err
		})
		if err != nil {
			return fmt.Errorf("compare the answers of %s: %w", s.name(), plainError(err))
		}
		m.progress.end()
		fmt.Fprintf(m.out, "%d of %d filters have the same answer as at %s\n", same, len(filters), s.name())
	}
	return nil
}

// lacks returns the events of a source's answer that the new server does not give.
func (m *migration) lacks(ctx context.Context, want []host.ID, f host.Filter) (lacks []host.ID, err error) {
	f.Limit = compareNewLimit
	got, err := m.to.ids(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, id := range want {
		switch _, refused := m.refused[id]; {
		case refused || slices.Contains(got, id):
		case m.waiting[id]:
			m.waits[id] = true
		default:
			lacks = append(lacks, id)
		}
	}
	return lacks, nil
}

// chooseFilters returns filters that match events of a source: by id, by author and kind, by tag, and
// by kind and time.
func (m *migration) chooseFilters(ctx context.Context, s migrationSource) (filters []host.Filter, err error) {
	items, _, err := s.items(ctx, host.Filter{Limit: -1}, func(int) {})
	if err != nil {
		return nil, err
	}
	ids := make([]host.ID, 0, len(items))
	for id := range items {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b host.ID) int { return slices.Compare(a[:], b[:]) }) // as good as by chance
	ids = ids[:min(len(ids), m.filters)]
	for part := range slices.Chunk(ids, copyAtOnce) {
		err := s.fetch(ctx, part, func(e *host.Event) {
			f := host.Filter{Limit: compareLimit}
			switch len(filters) % 4 {
			case 0:
				f.IDs = []host.ID{e.ID}
			case 1:
				f.Authors, f.Kinds = []host.PubKey{e.PubKey}, []host.Kind{e.Kind}
			case 2:
				f.Kinds = []host.Kind{e.Kind}
				since, until := e.CreatedAt-1000, e.CreatedAt
				f.Since, f.Until = &since, &until
			default:
				f.IDs = []host.ID{e.ID}
				for _, tag := range e.Tags {
					if len(tag) > 1 && len(tag[0]) == 1 && tag[1] != "" {
						f.IDs, f.Tags = nil, []host.TagFilter{{Name: tag[0][0], Values: []string{tag[1]}}}
						break
					}
				}
			}
			filters = append(filters, f)
		})
		if err != nil {
			return nil, err
		}
	}
	return filters, nil
}

// current finds the events of a list that a relay serves: the newest versions, none that a
// deletion names, none that has expired, none that is ephemeral.
type current struct {
	newest  map[string]*host.Event // by address
	others  map[host.ID]*host.Event
	deleted map[deletedBy]int64 // the latest deletion's time
}

// deletedBy is an id or address that an author's deletion names.
type deletedBy struct {
	author host.PubKey
	what   string
}

func newCurrent() *current {
	return &current{newest: map[string]*host.Event{}, others: map[host.ID]*host.Event{}, deleted: map[deletedBy]int64{}}
}

func (c *current) add(e *host.Event) {
	// The text and the content are not needed, and a file may have millions.
	short := &host.Event{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Kind: e.Kind}
	if e.Kind == host.KindDeletion {
		for _, tag := range e.Tags {
			if len(tag) > 1 && (tag[0] == "e" || tag[0] == "a") {
				by := deletedBy{e.PubKey, tag[1]}
				c.deleted[by] = max(c.deleted[by], e.CreatedAt)
			}
		}
	}
	if at, ok := e.Expiration(); ok && at <= time.Now().Unix() || e.Kind.Class() == host.Ephemeral {
		return
	}
	address, ok := e.Address()
	if !ok {
		c.others[e.ID] = short
		return
	}
	short.Tags = []host.Tag{{"d", address.D}}
	if old := c.newest[address.String()]; old == nil || e.Before(old) {
		c.newest[address.String()] = short
	}
}

// list returns the ids of what is served, newest first.
func (c *current) list() (ids []host.ID) {
	var events []*host.Event
	add := func(e *host.Event, what string) {
		at, deleted := c.deleted[deletedBy{e.PubKey, what}]
		if _, named := c.deleted[deletedBy{e.PubKey, e.ID.String()}]; !named && (!deleted || at < e.CreatedAt) {
			events = append(events, e)
		}
	}
	for address, e := range c.newest {
		add(e, address)
	}
	for _, e := range c.others {
		add(e, e.ID.String())
	}
	slices.SortFunc(events, func(a, b *host.Event) int {
		if a.Before(b) {
			return -1
		}
		return 1
	})
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}
