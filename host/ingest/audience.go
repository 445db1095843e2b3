package ingest

import (
	"context"
	"fmt"

	"talon/host"
)

// audience has the decision say who may receive the event.
func (p *Pipeline) audience(ctx context.Context, e *entry, facts *host.FactReader, now int64) error {
	if p.cfg.Audiences == nil {
		return nil
	}
	// The version is read first. A change during the decision makes it look older, never newer.
	e.asked = p.cfg.Audiences.Version()
	a, err := p.cfg.Audiences.Audience(ctx, e.item.Event, facts, now)
	facts.Asking("")
	if err == nil && len(e.open) > 0 {
		a = p.cfg.Audiences.With(e.item.Event, a, withheldIn(e.open))
	}
	if err == nil && a != nil {
		e.event = e.item.Event.For(a)
	}
	return err
}

// withheldIn returns the events that an open batch has stored or held and that are not for
// everybody.
func withheldIn(open []change) (list []*host.Event) {
	for i := range open {
		if c := &open[i]; !c.removed && c.event.Audience != nil {
			list = append(list, c.event)
		}
	}
	return list
}

// accepted returns the event of an entry as it is stored: with its audience.
func (e *entry) accepted() *host.Event {
	if e.event != nil {
		return e.event
	}
	return e.item.Event
}

// audienceChanged reports whether the audience of an entry was asked of other modules than those
// that answer now.
func (w *writer) audienceChanged(e *entry) bool {
	a := w.cfg.Audiences
	return a != nil && e.release == nil && e.vanish == nil && e.verdict == nil && e.err == nil && e.asked != a.Version()
}

// AudienceChange is a new audience of a stored event.
type AudienceChange struct {
	ID       host.ID
	Audience *host.Audience // nil: everybody
}

// SetAudiences changes who may receive stored events, in one transaction. Each change is a removal
// and a publication for all that follow commits. It returns how many events have changed.
func (p *Pipeline) SetAudiences(ctx context.Context, list []AudienceChange) (changed int, err error) {
	o := &operation{do: func(b *batch) error {
		changed = 0
		for _, c := range list {
			out, err := b.tx.SetAudience(c.ID, c.Audience)
			if err != nil {
				return err
			}
			if out == nil {
				continue
			}
			changed++
			b.changed([]*host.Event{out.Before})
			b.stored(out.After, out.Seq)
			b.published[len(b.published)-1].Changed = true
		}
		return nil
	}}
	if err := p.perform(ctx, o); err != nil {
		return 0, fmt.Errorf("change audiences: %w", err)
	}
	return changed, nil
}
