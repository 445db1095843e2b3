package store

import (
	"container/heap"
	"context"
	"math"
	"slices"
	"strings"

	"talon/host"
)

// Select returns the events that match any of the filters, newest first, ties by
// lowest id, each once. A filter selects at most Limit of them, its newest; a
// negative limit is none.
func (s *Store) Select(ctx context.Context, filters []host.Filter, now int64) (sel host.Selection, err error) {
	err = s.view(ctx, opSelect, now, func(v *snapshot) error {
		sel.Seq = v.seq
		var all []place
		for i := range filters {
			if empty(&filters[i]) || filters[i].Limit == 0 {
				continue
			}
			if err := v.pause(ctx); err != nil {
				return err
			}
			found, err := v.top(ctx, &filters[i], filters[i].Limit)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		if len(filters) > 1 {
			if all, err = v.settle(all); err != nil {
				return err
			}
		}
		sel.Rows = make([]int64, len(all))
		for i := range all {
			sel.Rows[i] = all[i].seq
		}
		return nil
	})
	return sel, err
}

// top returns the first limit matches of the filter in the order of answers, all
// if limit is negative.
func (v *snapshot) top(ctx context.Context, f *host.Filter, limit int) ([]place, error) {
	p, err := v.plan(f)
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		limit = math.MaxInt
	}
	var found []place
	add := func(m *match) error {
		found = append(found, m.place)
		return nil
	}
	if p.filter.IDs != nil {
		err := v.byID(p, needPlace, add)
		return v.cut(found, limit, err)
	}
	if p.kinds == nil && len(p.keys) > 1 || len(p.kinds)*len(p.keys) > v.tune.gatherSpans {
		most := max(2*min(limit, v.tune.chunkMost), v.tune.gatherLeast+v.tune.gatherKey*len(p.keys))
		if p.rest == needEvent {
			most = v.tune.gatherFull
		}
		sql, args := p.gather(packCandidates, most+1)
		row, err := v.first(sql, args...)
		if err != nil {
			return nil, err
		}
		if packed, _ := row[0].(string); len(packed) <= most*p.width() {
			_, err := v.places(p, needPlace, packed, add)
			return v.cut(found, limit, err)
		}
	}
	return v.merge(ctx, p, limit)
}

// cut sorts places and leaves the first limit.
func (v *snapshot) cut(found []place, limit int, err error) ([]place, error) {
	if err == nil {
		found, err = v.settle(found)
	}
	if err != nil {
		return nil, err
	}
	return found[:min(limit, len(found))], nil
}

// merge reads the spans side by side, newest first, until it has limit matches.
func (v *snapshot) merge(ctx context.Context, p *plan, limit int) ([]place, error) {
	// One more than is wanted shows whether the last place is shared.
	size := min(limit, v.tune.chunkMost-1) + 1
	if spans := len(p.keys) * max(len(p.kinds), 1); spans > 1 {
		size = max(2*size/spans, v.tune.chunkLeast)
	}
	size = min(size, v.chunk(p))
	var heads cursors
	err := v.open(ctx, p, size, func(c *cursor, packed string) error {
		heads = append(heads, c)
		return v.take(p, c, packed)
	})
	if err != nil {
		return nil, err
	}
	n := 0
	for _, c := range heads {
		if err := v.fill(ctx, p, c); err != nil {
			return nil, err
		}
		if len(c.rows) > 0 {
			heads[n] = c
			n++
		}
	}
	heads = heads[:n]
	heap.Init(&heads)
	var out []place
	for len(heads) > 0 {
		c := heads[0]
		at := c.rows[0]
		if k := len(out); k == 0 || out[k-1].seq != at.seq {
			// Those that may share the last place go along; settle decides.
			if k >= limit && !at.alike(out[k-1]) {
				break
			}
			out = append(out, at)
		}
		c.rows = c.rows[1:]
		if err := v.fill(ctx, p, c); err != nil {
			return nil, err
		}
		if len(c.rows) > 0 {
			heap.Fix(&heads, 0)
		} else {
			heap.Pop(&heads)
		}
	}
	return v.cut(out, limit, nil)
}

// settle puts places in the order of answers, each once. Ids that start alike
// are looked up.
func (v *snapshot) settle(found []place) ([]place, error) {
	if !slices.IsSortedFunc(found, place.compare) {
		slices.SortFunc(found, place.compare)
	}
	found = slices.Compact(found)
	for i := 0; i < len(found); {
		j := i + 1
		for j < len(found) && found[j].alike(found[i]) {
			j++
		}
		if j-i > 1 {
			if err := v.settleAlike(found[i:j]); err != nil {
				return nil, err
			}
		}
		i = j
	}
	return found, nil
}

func (v *snapshot) settleAlike(found []place) error {
	ids := make(map[int64]string, len(found))
	for _, p := range found {
		row, err := v.first(`SELECT id FROM event WHERE seq = ?`, p.seq)
		if err != nil {
			return err
		}
		if row != nil {
			id, _ := row[0].([]byte)
			ids[p.seq] = string(id)
		}
	}
	slices.SortFunc(found, func(a, b place) int { return strings.Compare(ids[a.seq], ids[b.seq]) })
	return nil
}

// cursors is a heap of cursors that have rows, the first in the order of answers
// on top.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].rows[0].compare(h[j].rows[0]) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}
