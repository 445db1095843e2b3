package devnet

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// moment is something that happens at a time of the world.
type moment struct {
	at int64
	do func(ctx context.Context) error
}

// moments returns what is drawn for the time from the begin on: copies of events, pushes and outages.
func (n *Net) moments() (list []moment) {
	n.mu.Lock() // Print adds to the world
	defer n.mu.Unlock()
	for _, e := range n.world.Events {
		if e.Data != nil && e.Data.At > 0 {
			list = append(list, moment{e.Data.At, func(ctx context.Context) error { return n.push(ctx, e) }})
		}
		for _, c := range e.Copies {
			if c.At >= 0 {
				list = append(list, moment{c.At, func(context.Context) error { return n.deliver(e, int(c.Place)) }})
			}
		}
	}
	for _, f := range n.world.Faults {
		for _, part := range f.Parts() {
			cut := func(down bool) func(context.Context) error {
				return func(context.Context) error {
					for _, r := range f.Relays {
						n.Relays[r].Cut(down)
					}
					for _, g := range f.Git {
						n.Git[g].exchange.cut(down)
					}
					return nil
				}
			}
			list = append(list, moment{part.From, cut(true)}, moment{part.To, cut(false)})
		}
	}
	slices.SortStableFunc(list, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return list
}

// play does what is drawn, in its time, until the context ends.
func (n *Net) play(ctx context.Context) error {
	for _, m := range n.moments() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(m.at-n.now()) * time.Millisecond):
		}
		if err := m.do(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}
