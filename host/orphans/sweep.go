package orphans

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/maintainers"
	"talon/host/wire"
	"talon/sdk/grasp"
)

const (
	// maxEvents bounds the events that lead to one announcement. Of more of them, none goes.
	maxEvents = 50_000

	pageSize = 500 // events that one query returns
	slice    = 100 // events that one commit removes

	// A slice of work is followed by a pause, so that the sweep never takes half a core.
	workTime = 20 * time.Millisecond
	restTime = 60 * time.Millisecond

	// maxRounds bounds how often all remaining events are asked about. A chain of events in which
	// each justifies the one before needs a round for each, and a real thread has few.
	maxRounds = 100
)

// pace makes pauses.
type pace struct{ began time.Time }

// pause pauses if a slice of work is over.
func (p *pace) pause(ctx context.Context) error {
	if p.began.IsZero() {
		p.began = time.Now()
	}
	if time.Since(p.began) < workTime {
		return ctx.Err()
	}
	select {
	case <-time.After(restTime):
	case <-ctx.Done():
	}
	p.began = time.Now()
	return ctx.Err()
}

// removeOrphans removes the events that only an announcement justified, unless its repository is
// announced again.
func (s *Sweeper) removeOrphans(ctx context.Context, gone *host.Event) error {
	address, ok := gone.Address()
	if !ok {
		return nil
	}
	again := false
	at := host.Filter{Tags: []host.TagFilter{{Name: host.AddressOf, Values: []string{address.String()}}}, Limit: 1, Header: true}
	err := maintainers.ReadAll(ctx, s.cfg.Store, at, func(*host.Event, bool) { again = true })
	if err != nil || again {
		return err
	}
	var p pace
	list, err := s.related(ctx, gone, &p)
	if err != nil || len(list) == 0 {
		return err
	}
	if list, err = s.unjustified(ctx, gone, list, &p); err != nil {
		return err
	}
	removed := 0
	for part := range slices.Chunk(list, slice) {
		n, err := s.cfg.Remove(ctx, part)
		if err != nil {
			return err
		}
		removed += n
		if err := p.pause(ctx); err != nil {
			return err
		}
	}
	if removed > 0 {
		s.cfg.Log.Info("events of an announcement that is gone were removed", "announcement", address.String(), "events", removed)
	}
	return nil
}

// related returns the stored events that lead to an announcement: states of its identifier, and
// those that name it, or that name one of these. It returns none if there are too many.
func (s *Sweeper) related(ctx context.Context, gone *host.Event, p *pace) (list []host.ID, err error) {
	seen := map[host.ID]struct{}{gone.ID: {}}
	queue := []*host.Event{gone}
	for len(queue) > 0 {
		e := queue[0]
		queue = queue[1:]
		values := []string{e.ID.String()}
		if a, ok := e.Address(); ok {
			values = append(values, a.String())
		}
		filters := host.ReferenceFilters(values...)
		if e == gone {
			filters = append(filters, host.Filter{
				Kinds: []host.Kind{grasp.KindState}, Tags: []host.TagFilter{{Name: 'd', Values: []string{gone.D()}}},
			})
		}
		for _, f := range filters {
			err := s.each(ctx, f, p, func(e *host.Event) {
				if _, ok := seen[e.ID]; ok || e.Kind == host.KindAnnouncement {
					return
				}
				seen[e.ID] = struct{}{}
				list = append(list, e.ID)
				queue = append(queue, &host.Event{ID: e.ID, PubKey: e.PubKey, Kind: e.Kind, Tags: host.Tags{{"d", e.D()}}})
			})
			if err != nil {
				return nil, err
			}
			if len(list) > maxEvents {
				s.cfg.Log.Warn("an announcement that is gone has too many events: they stay", "announcement", gone.ID.String(), "maximum", maxEvents)
				return nil, nil
			}
		}
	}
	return list, nil
}

// each calls yield with the stored events that match, the newest first. Events of one second that
// do not fit in a page are left out: they are found in the next round.
func (s *Sweeper) each(ctx context.Context, f host.Filter, p *pace, yield func(e *host.Event)) error {
	f.Limit = pageSize
	for {
		if err := p.pause(ctx); err != nil {
			return err
		}
		n, oldest := 0, int64(0)
		err := maintainers.Read(ctx, s.cfg.Store.Query, f, func(e *host.Event) {
			n++
			oldest = e.CreatedAt
			yield(e)
		})
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		if n < f.Limit {
			return nil
		}
		if f.Until != nil && *f.Until == oldest {
			f.Limit *= 2 // all of one second
		} else {
			f.Limit = pageSize
		}
		f.Until = &oldest
	}
}

// unjustified returns those of related events that nothing but an announcement justified.
func (s *Sweeper) unjustified(ctx context.Context, gone *host.Event, list []host.ID, p *pace) ([]host.ID, error) {
	justified := func(e *host.Event) (bool, error) {
		r, err := s.ask(ctx, e, with{s.cfg.Store, gone})
		return r.Action == host.Accept || r.Action == host.Hold, err
	}
	// The announcement does not matter for what the policies refuse in any case.
	list, err := s.filter(ctx, list, p, justified)
	if err != nil {
		return nil, err
	}
	hidden := make(map[host.ID]struct{}, len(list))
	for _, id := range list {
		hidden[id] = struct{}{}
	}
	for range maxRounds {
		n := len(list)
		list, err = s.filter(ctx, list, p, func(e *host.Event) (bool, error) {
			r, err := s.ask(ctx, e, without{s.cfg.Store, hidden})
			if err != nil || rejects(&r) {
				return true, err
			}
			delete(hidden, e.ID) // it counts for those that lead to it
			return false, nil
		})
		if err != nil {
			return nil, err
		}
		if len(list) == n {
			return s.filter(ctx, list, p, justified) // the policies may have changed meanwhile
		}
	}
	return nil, nil // those that remain may be justified as well
}

// rejects reports whether a policy has decided against an event. One that fails, or asks to try
// again, has not.
func rejects(r *host.Ruling) bool {
	return r.Action == host.Reject && r.Retry == 0 && !strings.HasPrefix(r.Reason, "error:") && !strings.HasPrefix(r.Reason, "rate-limited:")
}

// filter returns the events that are still stored and for which keep is true.
func (s *Sweeper) filter(ctx context.Context, list []host.ID, p *pace, keep func(e *host.Event) (bool, error)) (kept []host.ID, err error) {
	for _, id := range list {
		if err := p.pause(ctx); err != nil {
			return nil, err
		}
		text, err := s.cfg.Store.Get(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("read an event: %w", err)
		}
		if text == nil {
			continue
		}
		e, err := wire.ParseEvent(text)
		if err != nil {
			return nil, fmt.Errorf("an event that is here does not parse: %w", err)
		}
		yes, err := keep(e)
		if err != nil {
			return nil, err
		}
		if yes {
			kept = append(kept, id)
		}
	}
	return kept, nil
}

// ask asks the policies about an event as if an import brought it: limits in time do not count.
func (s *Sweeper) ask(ctx context.Context, e *host.Event, stored host.Facts) (host.Ruling, error) {
	it := &host.Item{Event: e, Source: &host.Source{Origin: host.FromImport}}
	r, err := s.cfg.Policy.Admit(ctx, it, host.NewFactReader(stored, s.cfg.Store, nil), s.cfg.Now().Unix())
	if err != nil {
		return r, fmt.Errorf("ask the policies about an event: %w", err)
	}
	return r, nil
}
