// Package memfacts answers facts from events in memory, as a store and its purgatory answer them.
// Vectors of a module, modules that run without a relay, and tests use it.
//
// Answers have the order of a store: newest first, of the same second the lowest id first. They
// obey the limit of a filter, and consist of headers if the filter asks for no more.
package memfacts

import (
	"context"
	"slices"

	"talon/host"
)

// Facts are stored and held events. The zero value has none. Facts implement [host.RepoFacts].
type Facts struct{ stored, held list }

// New returns facts about stored and held events. The events have their texts.
func New(stored, held []*host.Event) *Facts {
	return &Facts{stored: newList(stored), held: newList(held)}
}

// With returns facts that also have other stored and held events.
func (f *Facts) With(stored, held []*host.Event) *Facts {
	if len(stored) == 0 && len(held) == 0 {
		return f
	}
	return New(slices.Concat(stored, f.stored.events), slices.Concat(held, f.held.events))
}

// Get implements [host.Facts].
func (f *Facts) Get(_ context.Context, id host.ID) ([]byte, error) { return f.stored.get(id), nil }

// Query implements [host.Facts].
func (f *Facts) Query(_ context.Context, filter host.Filter) ([][]byte, error) {
	return Query(f.stored.events, filter), nil
}

// Referenced implements [host.Facts].
func (f *Facts) Referenced(_ context.Context, idOrAddress string) (bool, error) {
	return slices.ContainsFunc(f.stored.events, func(e *host.Event) bool { return e.Names(idOrAddress) }), nil
}

// Held implements [host.HeldFacts].
func (f *Facts) Held(_ context.Context, id host.ID) ([]byte, error) { return f.held.get(id), nil }

// HeldBy implements [host.HeldFacts].
func (f *Facts) HeldBy(_ context.Context, filter host.Filter) ([][]byte, error) {
	return Query(f.held.events, filter), nil
}

// list has events in the order of answers, each once.
type list struct {
	events []*host.Event
	byID   map[host.ID]*host.Event
}

// newList returns a list of events. Of events with the same id it has the first.
func newList(events []*host.Event) list {
	l := list{events: make([]*host.Event, 0, len(events)), byID: make(map[host.ID]*host.Event, len(events))}
	for _, e := range events {
		if l.byID[e.ID] == nil {
			l.byID[e.ID] = e
			l.events = append(l.events, e)
		}
	}
	slices.SortFunc(l.events, compare)
	return l
}

func (l list) get(id host.ID) []byte {
	if e := l.byID[id]; e != nil {
		return e.JSON
	}
	return nil
}

// Query returns the texts of those of some events that match a filter. A negative limit is none.
func Query(events []*host.Event, f host.Filter) (found [][]byte) {
	var matching []*host.Event
	for _, e := range events {
		if f.Matches(e) {
			matching = append(matching, e)
		}
	}
	slices.SortFunc(matching, compare)
	if f.Limit >= 0 {
		matching = matching[:min(len(matching), f.Limit)]
	}
	for _, e := range matching {
		if f.Header {
			e = e.Header()
		}
		found = append(found, e.JSON)
	}
	return found
}

// compare orders events as answers do: newest first, of the same second the lowest id first.
func compare(a, b *host.Event) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return 0
}
