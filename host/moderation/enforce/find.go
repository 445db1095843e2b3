package enforce

import (
	"bytes"
	"context"
	"math"

	"talon/host"
	"talon/host/moderation"
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

// eachBarred calls take with the events that a row bars, held ones first, then announcements, a
// slice at a time. stays says that take does not remove them.
func (e *Enforcer) eachBarred(ctx context.Context, r *moderation.Row, take func([]*host.Event) error, stays bool) error {
	one := moderation.Of(*r)
	barred := func(event *host.Event) bool { return one.Event(event, e.cfg.Now().Unix()) != nil }
	for _, f := range filtersOf(r) {
		texts, err := e.cfg.Store.HeldBy(ctx, f)
		if err != nil {
			return err
		}
		var list []*host.Event
		for _, text := range texts {
			if event, err := wire.ParseEvent(text); err == nil && barred(event) {
				list = append(list, event)
			}
		}
		for len(list) > 0 {
			n := min(len(list), slice)
			if err := take(list[:n]); err != nil {
				return err
			}
			list = list[n:]
		}
	}
	for _, first := range []bool{true, false} {
		for _, f := range filtersOf(r) {
			if first {
				if f.Kinds != nil || f.IDs != nil {
					continue
				}
				f.Kinds = []host.Kind{host.KindAnnouncement}
			}
			if err := e.eachStored(ctx, f, barred, take, stays); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachStored calls take with the stored events that a filter matches and that pass a test, newest
// first, a slice at a time. stays says that take does not remove them, and gets some twice.
func (e *Enforcer) eachStored(ctx context.Context, f host.Filter, wanted func(*host.Event) bool, take func([]*host.Event) error, stays bool) error {
	f.Reader = host.Everything
	for f.Limit = slice; ; {
		// Also what has expired and waits for the sweep: a purge leaves nothing.
		found, err := e.cfg.Store.Select(ctx, []host.Filter{f}, math.MinInt64)
		if err != nil {
			return err
		}
		var list []*host.Event
		oldest := int64(0)
		err = e.cfg.Store.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
			event, err := wire.ParseEvent(bytes.Clone(json))
			if err != nil {
				return err
			}
			oldest = event.CreatedAt
			if wanted(event) {
				list = append(list, event)
			}
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
		switch {
		case len(found.Rows) < f.Limit:
			return nil
		case f.Until == nil || *f.Until != oldest:
			f.Until, f.Limit = &oldest, slice
		case len(list) == 0 || stays:
			f.Limit *= 2 // more than that have one second, and stay
		}
	}
}
