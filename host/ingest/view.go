package ingest

import (
	"context"
	"errors"
	"slices"
	"sort"

	"talon/host"
	"talon/host/wire"
)

// view is what has been committed, with changes of the open batch on top: the facts
// as they will be if that batch is committed. Its reads may be newer than the
// changes, since the batch may be committed by then. It is a [host.RepoFacts].
type view struct {
	stored host.Facts
	held   host.HeldFacts
	open   []change // shared; never changed
}

// errNoUsage is why nobody can read how much of the store an author takes.
var errNoUsage = errors.New("the facts have no usage")

// reader returns the reader of one decision. A worker that waits for a fact gives up its turn.
func (v *view) reader(turn host.Turn) *host.FactReader {
	if v.held == nil {
		return host.NewFactReader(v, nil, turn)
	}
	return host.NewFactReader(v, v, turn)
}

// last returns the last change of an event, nil if there is none.
func (v *view) last(id host.ID, held bool) *change {
	for i := len(v.open) - 1; i >= 0; i-- {
		if c := &v.open[i]; c.held == held && c.event.ID == id {
			return c
		}
	}
	return nil
}

func (c *change) text() []byte {
	if c.removed {
		return nil
	}
	return c.event.JSON
}

func (v *view) Get(ctx context.Context, id host.ID) ([]byte, error) {
	if c := v.last(id, false); c != nil {
		return c.text(), nil
	}
	return v.stored.Get(ctx, id)
}

func (v *view) Held(ctx context.Context, id host.ID) ([]byte, error) {
	if c := v.last(id, true); c != nil {
		return c.text(), nil
	}
	return v.held.Held(ctx, id)
}

// Usage implements [host.UsageFacts]. It is that of what is committed.
func (v *view) Usage(ctx context.Context, keys ...host.UsageKey) ([]host.Usage, error) {
	if facts, ok := v.stored.(host.UsageFacts); ok {
		return facts.Usage(ctx, keys...)
	}
	return nil, errNoUsage
}

// RepositoryAudience implements [host.AudienceFacts].
func (v *view) RepositoryAudience(ctx context.Context, ids []host.ID) (out *host.Audience, err error) {
	var stored []host.ID
	for _, id := range ids {
		known := false
		for _, held := range []bool{false, true} {
			if c := v.last(id, held); c != nil && !c.removed {
				known = true
				out = out.StricterRepository(c.event.Audience)
			}
		}
		if !known {
			stored = append(stored, id)
		}
	}
	facts, ok := v.stored.(host.AudienceFacts)
	if !ok || len(stored) == 0 {
		return out, nil
	}
	a, err := facts.RepositoryAudience(ctx, stored)
	return out.StricterRepository(a), err
}

func (v *view) Query(ctx context.Context, f host.Filter) ([][]byte, error) {
	return v.merge(ctx, f, false, v.stored.Query)
}

func (v *view) HeldBy(ctx context.Context, f host.Filter) ([][]byte, error) {
	return v.merge(ctx, f, true, v.held.HeldBy)
}

func (v *view) Referenced(ctx context.Context, idOrAddress string) (bool, error) {
	if len(v.open) == 0 {
		return v.stored.Referenced(ctx, idOrAddress)
	}
	return host.FindReference(ctx, v.Query, idOrAddress)
}

// merge answers a query with the changes that match its filter applied to what read
// finds, in the same order: newest first, ties by lowest id.
func (v *view) merge(ctx context.Context, f host.Filter, held bool,
	read func(context.Context, host.Filter) ([][]byte, error)) ([][]byte, error) {
	var added, removed []*host.Event
	for i := range v.open {
		c := &v.open[i]
		if c.held != held || !f.Matches(c.event) || v.last(c.event.ID, held) != c {
			continue
		}
		if c.removed {
			removed = append(removed, c.event)
		} else {
			added = append(added, c.event)
		}
	}
	if len(added) == 0 && len(removed) == 0 {
		return read(ctx, f)
	}
	limit := f.Limit
	if limit >= 0 {
		f.Limit += len(removed)
	}
	found, err := read(ctx, f)
	if err != nil {
		return nil, err
	}
	found = slices.Clone(found)
	for _, e := range removed {
		if i, is, err := position(found, e); err != nil {
			return nil, err
		} else if is {
			found = slices.Delete(found, i, i+1)
		}
	}
	for _, e := range added {
		if i, is, err := position(found, e); err != nil {
			return nil, err
		} else if !is {
			found = slices.Insert(found, i, e.JSON)
		}
	}
	if limit >= 0 && len(found) > limit {
		found = found[:limit]
	}
	return found, nil
}

// position returns where an event stands among the texts of events in the order of
// answers, or where it would, and whether it does.
func position(texts [][]byte, e *host.Event) (i int, is bool, err error) {
	var failure error
	i = sort.Search(len(texts), func(i int) bool {
		other, err := wire.ParseEvent(texts[i])
		if err != nil {
			failure = err
			return true
		}
		if other.ID == e.ID {
			is = true
			return true
		}
		return e.Before(other)
	})
	return i, is, failure
}
