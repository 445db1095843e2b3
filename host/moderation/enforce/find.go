package enforce

import (
	"bytes"
	"context"
	"math"
	"slices"

	"talon/host"
	"talon/host/moderation"
	"talon/host/store/semantics"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// filtersOf returns filters that match all events that a row may bar.
func filtersOf(r *moderation.Row) []host.Filter {
	t := &r.Target
	f := host.Filter{Limit: -1}
	switch t.Class() {
	case moderation.Event:
		f.IDs = []host.ID{t.ID()}
	case moderation.Author:
		f.Authors = []host.PubKey{t.PubKey()}
	case moderation.Kind:
		f.Kinds = []host.Kind{t.Kind()}
	case moderation.Filter:
		f = t.Filter()
	case moderation.Repository:
		a := t.Address()
		state := host.Address{Kind: grasp.KindState, PubKey: a.PubKey, D: a.D}
		tag := func(name byte, values ...string) host.Filter {
			return host.Filter{Tags: []host.TagFilter{{Name: name, Values: values}}, Limit: -1}
		}
		return []host.Filter{tag(host.AddressOf, a.String(), state.String()), tag('a', a.String()), tag('A', a.String())}
	default:
		return nil // networks and git objects are no events
	}
	return []host.Filter{f}
}

// scope is what a row or a request to vanish is about.
type scope struct {
	filters  []host.Filter          // match all events that it may concern
	concerns func(*host.Event) bool // says which of these it does concern
	hidden   []hiddenAfter          // return the hidden events that it may concern
	replies  bool                   // it reaches replies to these events that name nothing else
}

// scopeOf returns the scope of a row.
func (e *Enforcer) scopeOf(r *moderation.Row) *scope {
	one := moderation.Of(*r)
	return &scope{
		filters:  filtersOf(r),
		concerns: func(event *host.Event) bool { return one.Event(event, e.cfg.Now().Unix()) != nil },
		hidden:   []hiddenAfter{e.hiddenOf(&r.Target)},
		replies:  r.Target.Class() == moderation.Repository,
	}
}

// hiddenOf returns the hidden events that a target may concern.
func (e *Enforcer) hiddenOf(t *moderation.Target) hiddenAfter {
	switch t.Class() {
	case moderation.Author:
		author := t.PubKey()
		return func(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error) {
			return e.cfg.Store.HiddenOf(ctx, &author, 0, number, limit)
		}
	case moderation.Kind:
		return func(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error) {
			return e.cfg.Store.HiddenOf(ctx, nil, t.Kind(), number, limit)
		}
	}
	return e.cfg.Store.HiddenAfter
}

// each calls take with the stored and held events of a scope, held ones first, then announcements, a
// slice at a time. stays says that take does not remove them; then it gets each once.
func (e *Enforcer) each(ctx context.Context, s *scope, take func([]*host.Event) error, stays bool) error {
	if s.replies {
		only := take
		take = func(list []*host.Event) error {
			if err := only(list); err != nil {
				return err
			}
			return e.eachReply(ctx, s, list, only)
		}
	}
	for i := range s.filters {
		texts, err := e.cfg.Store.HeldBy(ctx, s.filters[i])
		if err != nil {
			return err
		}
		var list []*host.Event
		for _, text := range texts {
			if event, err := wire.ParseEvent(text); err == nil && s.in(i, event) {
				list = append(list, event)
			}
		}
		for part := range slices.Chunk(list, slice) {
			if err := take(part); err != nil {
				return err
			}
		}
	}
	for _, first := range []bool{true, false} {
		for i, f := range s.filters {
			if first {
				if stays || f.Kinds != nil || f.IDs != nil {
					continue
				}
				f.Kinds = []host.Kind{host.KindAnnouncement}
			}
			wanted := func(event *host.Event) bool { return s.in(i, event) }
			if err := e.eachStored(ctx, f, wanted, take, stays); err != nil {
				return err
			}
		}
	}
	return nil
}

// in reports whether the scope concerns an event, and no filter before number i matches it.
func (s *scope) in(i int, event *host.Event) bool {
	for j := range i {
		if s.filters[j].Matches(event) {
			return false
		}
	}
	return s.concerns(event)
}

// eachStored calls take with the stored events that a filter matches and that pass a test, newest
// first, a slice at a time. stays says that take does not remove them.
func (e *Enforcer) eachStored(ctx context.Context, f host.Filter, wanted func(*host.Event) bool, take func([]*host.Event) error, stays bool) error {
	f.Reader = host.Everything
	seen := make(map[host.ID]struct{}) // of the second at which the next answer begins
	for f.Limit = slice; ; {
		// Also what has expired and waits for the sweep: a purge leaves nothing.
		found, err := e.cfg.Store.Select(ctx, []host.Filter{f}, math.MinInt64)
		if err != nil {
			return err
		}
		taken, oldest := 0, int64(0)
		for rows := range slices.Chunk(found.Rows, slice) {
			var list []*host.Event
			err = e.cfg.Store.Fetch(ctx, rows, func(_ int64, json []byte) error {
				event, err := wire.ParseEvent(bytes.Clone(json))
				if err != nil {
					return err
				}
				if event.CreatedAt != oldest {
					oldest = event.CreatedAt
					if f.Until == nil || oldest != *f.Until {
						clear(seen)
					}
				}
				if _, again := seen[event.ID]; again || !wanted(event) {
					return nil
				}
				if stays {
					seen[event.ID] = struct{}{}
				}
				list = append(list, event)
				return nil
			})
			if err != nil {
				return err
			}
			if len(list) > 0 {
				if err := take(list); err != nil {
					return err
				}
			}
			taken += len(list)
		}
		switch {
		case len(found.Rows) < f.Limit:
			return nil
		case f.Until == nil || *f.Until != oldest:
			f.Until, f.Limit = &oldest, slice
		case taken == 0 || stays:
			f.Limit *= 2 // more than that have one second, and stay
		}
	}
}
