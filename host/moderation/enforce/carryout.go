package enforce

import (
	"context"
	"errors"
	"slices"

	"talon/host"
	"talon/host/moderation"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// purgedAtOnce is how many repositories are removed from the store before their folders go.
const purgedAtOnce = 100

// carryOut takes down what is stored and held of a row.
func (e *Enforcer) carryOut(ctx context.Context, r *moderation.Row) error {
	if r.Until > 0 && r.Until <= e.cfg.Now().Unix() {
		return nil
	}
	return e.takeDown(ctx, e.scopeOf(r), r.Action == moderation.Purge, e.note)
}

// takeDown hides or removes the events of a scope. It reports what it did as it goes on.
func (e *Enforcer) takeDown(ctx context.Context, s *scope, purge bool, report func(Progress)) error {
	var purged []host.Address
	dropFolders := func() (failed error) {
		for _, a := range purged {
			if e.cfg.Purged != nil {
				failed = errors.Join(failed, e.cfg.Purged(ctx, a))
			}
		}
		purged = purged[:0]
		return failed
	}
	one := func(list []*host.Event) error {
		var t host.Takedown
		ids := make([]host.ID, len(list))
		var p Progress
		for i, event := range list {
			ids[i] = event.ID
			p.Events++
			p.Bytes += int64(len(event.JSON))
			if event.Kind == host.KindAnnouncement {
				p.Repositories++
				if a, ok := event.Address(); ok && purge {
					purged = append(purged, a)
				}
			}
		}
		if t.Hide = ids; purge {
			t.Hide, t.Purge = nil, ids
		}
		out, err := e.cfg.Pipeline.TakeDown(ctx, t)
		if err != nil {
			return err
		}
		p.Held = int64(len(out.Held))
		report(p)
		if len(purged) < purgedAtOnce {
			return nil
		}
		return dropFolders()
	}
	take := func(list []*host.Event) error {
		for part := range slices.Chunk(list, commit) {
			if err := one(part); err != nil {
				return err
			}
		}
		return nil
	}
	if err := e.each(ctx, s, take, false); err != nil {
		return err
	}
	if purge {
		if err := e.eachConcernedHidden(ctx, s, take); err != nil {
			return err
		}
	}
	return dropFolders()
}

// show stores the hidden events again that no row bars any more.
func (e *Enforcer) show(ctx context.Context) error {
	return e.eachHidden(ctx, e.cfg.Store.HiddenAfter, func(list []*host.Event) error {
		now := e.cfg.Now().Unix()
		var ids []host.ID
		ofRepository := func(event *host.Event) bool { return e.cfg.Log.ByRepository(event, now) != nil }
		for _, event := range list {
			barred := e.cfg.Log.Event(event, now) != nil
			if !barred {
				var err error
				if barred, err = e.repliesToHidden(ctx, event, ofRepository, 0); err != nil {
					return err
				}
			}
			if !barred {
				ids = append(ids, event.ID)
			}
		}
		if ids == nil {
			return nil
		}
		for part := range slices.Chunk(ids, commit) {
			out, err := e.cfg.Pipeline.TakeDown(ctx, host.Takedown{Show: part})
			if err != nil {
				return err
			}
			e.note(shown(&out))
		}
		return nil
	})
}

// shown counts what a takedown has shown. That may be less than it was asked for: a row of another
// node may bar an event by then.
func shown(out *host.TakedownOutcome) (p Progress) {
	for i := range out.Published {
		event := out.Published[i].Event
		p.Events++
		p.Bytes += int64(len(event.JSON))
		if event.Kind == host.KindAnnouncement {
			p.Repositories++
		}
	}
	return p
}

// hiddenAfter returns hidden events with higher numbers than one, at most limit, in the order of
// numbers.
type hiddenAfter func(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error)

// eachHidden calls yield with the hidden events that a function returns, a slice at a time.
func (e *Enforcer) eachHidden(ctx context.Context, next hiddenAfter, yield func([]*host.Event) error) error {
	for last := int64(0); ; {
		found, err := next(ctx, last, slice)
		if err != nil || len(found) == 0 {
			return err
		}
		last = found[len(found)-1].Seq
		var list []*host.Event
		for _, h := range found {
			event, err := wire.ParseEvent(h.JSON)
			if err != nil {
				e.cfg.Logger.Error("read a hidden event", "id", h.ID, "err", err)
				continue
			}
			list = append(list, event)
		}
		if err := yield(list); err != nil {
			return err
		}
	}
}

// eachConcernedHidden calls take with the hidden events of a scope, a slice at a time.
func (e *Enforcer) eachConcernedHidden(ctx context.Context, s *scope, take func([]*host.Event) error) error {
	takeIf := func(next hiddenAfter, wanted func(*host.Event) (bool, error)) error {
		return e.eachHidden(ctx, next, func(list []*host.Event) error {
			var concerned []*host.Event
			for _, event := range list {
				yes, err := wanted(event)
				if err != nil {
					return err
				}
				if yes {
					concerned = append(concerned, event)
				}
			}
			if len(concerned) == 0 {
				return nil
			}
			return take(concerned)
		})
	}
	for _, next := range s.hidden {
		if s.replies { // while that is here to which they reply
			err := takeIf(next, func(event *host.Event) (bool, error) {
				if s.concerns(event) {
					return false, nil
				}
				return e.repliesToHidden(ctx, event, s.concerns, 0)
			})
			if err != nil {
				return err
			}
		}
		if err := takeIf(next, func(event *host.Event) (bool, error) { return s.concerns(event), nil }); err != nil {
			return err
		}
	}
	return nil
}
