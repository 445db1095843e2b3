package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/daemon"
	"talon/host/negentropy"
	"talon/host/relayclient"
	"talon/host/schnorr"
	"talon/host/wire"
)

// side is what is compared with another.
type side interface {
	name() string

	// items returns the ids and times of all events that match, but in some seconds, which
	// cut counts, perhaps not all.
	items(ctx context.Context, f host.Filter, progress func(n int)) (all map[host.ID]int64, cut int, _ error)

	// compare returns the ids of the set that the side lacks, and the ids that it has but
	// the set lacks. An error that wraps relayclient.ErrNoNegentropy says that the side
	// cannot compare.
	compare(ctx context.Context, f host.Filter, set *negentropy.Set) (lacks, beside []host.ID, err error)

	// fetch calls yield with each of the events, as far as they are there.
	fetch(ctx context.Context, ids []host.ID, yield func(*host.Event)) error

	// store takes events.
	store(ctx context.Context, events []*host.Event, t *copied) error

	close() error
}

// localSide is the database.
type localSide struct {
	core   *daemon.Core
	source *host.Source
}

func (l *localSide) name() string { return "the database" }

func (l *localSide) close() error { return nil }

func (l *localSide) items(ctx context.Context, f host.Filter, _ func(int)) (_ map[host.ID]int64, cut int, _ error) {
	all := map[host.ID]int64{}
	_, _, err := l.core.Store.Scan(ctx, f, maxItems, time.Now().Unix(), func(createdAt int64, id host.ID) { all[id] = createdAt })
	return all, 0, err
}

// compare is not asked of the database: it is the first side.
func (l *localSide) compare(context.Context, host.Filter, *negentropy.Set) (lacks, beside []host.ID, err error) {
	return nil, nil, relayclient.ErrNoNegentropy
}

func (l *localSide) fetch(ctx context.Context, ids []host.ID, yield func(*host.Event)) error {
	for _, id := range ids {
		text, err := l.core.Store.Get(ctx, id)
		if err != nil {
			return err
		}
		if text == nil {
			continue
		}
		e, err := wire.ParseEvent(text)
		if err != nil {
			return err
		}
		if !e.Protected() { // its author alone may publish it (NIP-70)
			yield(e)
		}
	}
	return nil
}

func (l *localSide) store(ctx context.Context, events []*host.Event, t *copied) error {
	var mu sync.Mutex // guards t and failed
	var failed error
	var flying sync.WaitGroup
	defer flying.Wait()
	for _, e := range events {
		flying.Add(1)
		err := l.core.Pipeline.Submit(ctx, &host.Item{Event: e, Source: l.source, Done: func(v host.Verdict, err error) {
			defer flying.Done()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				failed = err
			case v.Code == host.Stored || v.Code == host.Held:
				t.stored++
			case v.Code == host.Duplicate || v.Code == host.Replaced:
				t.known++
			default:
				t.refuse(v.Reason)
			}
		}})
		if err != nil {
			flying.Done()
			return err
		}
	}
	flying.Wait()
	return failed
}

// maxItems bounds what is held in memory of a side.
const maxItems = 20_000_000

// relaySide is a relay.
type relaySide struct{ *target }

func (r *relaySide) name() string { return r.address }

func (r *relaySide) close() error {
	r.target.close()
	return nil
}

// items reads all events. A relay may give fewer than it is asked for. So the end is an
// answer with nothing new. This method asks once more for the last second of each answer,
// with a larger limit if the answer has only that second. If that brings nothing new, the
// second counts as cut: the relay may have more of it, and there is no way to ask.
func (r *relaySide) items(ctx context.Context, f host.Filter, progress func(int)) (_ map[host.ID]int64, cut int, _ error) {
	all := map[host.ID]int64{}
	before, most := 0, 0 // events of the usual answer before; and of any such answer behind which there were more
	for limit := pageEvents; ; {
		page := f
		page.Limit = limit
		fresh, oldest, newest, got := 0, int64(0), int64(0), 0
		err := r.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
			return c.Query(ctx, wire.AppendFilter(nil, &page), func(e *host.Event) bool {
				if !f.Matches(e) {
					return true
				}
				if _, ok := all[e.ID]; !ok {
					fresh++
					all[e.ID] = e.CreatedAt
				}
				if got == 0 || e.CreatedAt < oldest {
					oldest = e.CreatedAt
				}
				newest = max(newest, e.CreatedAt)
				got++
				return got < maxItems
			})
		})
		if err != nil {
			return nil, 0, err
		}
		progress(len(all))
		full := got >= limit
		if limit == pageEvents {
			if fresh > 0 {
				most = max(most, before)
			}
			before = got
			full = full || most > 0 && got >= most // a relay may give less at a time
		}
		until := oldest
		switch {
		case got == 0:
			return all, cut, nil
		case oldest < newest:
			limit = pageEvents
			if fresh == 0 {
				until-- // all of it was seen, and the relay gave more than a second
			}
		case full && fresh > 0 && limit < maxItems:
			limit *= 2 // not more: some relays give a quarter of what is too much
		default:
			if fresh == 0 && limit > pageEvents {
				cut++
			}
			limit = pageEvents
			until--
		}
		if until < 0 {
			return all, cut, nil
		}
		f.Until = &until
	}
}

func (r *relaySide) compare(ctx context.Context, f host.Filter, set *negentropy.Set) (lacks, beside []host.ID, err error) {
	err = r.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
		lacks, beside, err = c.Reconcile(ctx, wire.AppendFilter(nil, &f), set, reconcileLimits)
		return err
	})
	return lacks, beside, err
}

// fetch asks until the relay gives no more of the events: it may give fewer in one answer
// than it is asked for.
func (r *relaySide) fetch(ctx context.Context, ids []host.ID, yield func(*host.Event)) error {
	for len(ids) > 0 {
		came := map[host.ID]bool{}
		f := host.Filter{IDs: ids, Limit: len(ids)}
		err := r.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
			return c.Query(ctx, wire.AppendFilter(nil, &f), func(e *host.Event) bool {
				if !came[e.ID] && f.Matches(e) && schnorr.Verify(e) == nil {
					yield(e)
				}
				came[e.ID] = true
				return len(came) <= len(ids)
			})
		})
		if err != nil {
			return err
		}
		var rest []host.ID
		for _, id := range ids {
			if !came[id] {
				rest = append(rest, id)
			}
		}
		if len(rest) == len(ids) {
			return nil
		}
		ids = rest
	}
	return nil
}

func (r *relaySide) store(ctx context.Context, events []*host.Event, t *copied) error {
	return r.ask(ctx, func(ctx context.Context, c *relayclient.Conn) error {
		return c.PublishAll(ctx, events, func(_ *host.Event, res relayclient.Result) {
			switch {
			case res.OK && strings.HasPrefix(res.Reason, "duplicate:"), strings.HasPrefix(res.Reason, "replaced:"):
				t.known++
			case res.OK:
				t.stored++
			default:
				t.refuse(res.Reason)
			}
		})
	})
}

// pageEvents is what is asked for of a relay that must be read page by page.
const pageEvents = 500

// reconcileLimits bounds what a relay can make us hold.
var reconcileLimits = negentropy.ClientLimits{Frame: 30 << 10, IDs: maxItems, Rounds: 100_000}
