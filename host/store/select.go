package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"talon/host"
	"talon/host/store/metrics"
)

// Select returns the events that match any of the filters, newest first, ties by
// lowest id, each once. A filter selects at most Limit of them, its newest; a
// negative limit is none.
func (s *Store) Select(ctx context.Context, filters []host.Filter, now int64) (sel host.Selection, err error) {
	err = s.view(ctx, metrics.Select, now, func(v *snapshot) error {
		sel.Seq = v.seq
		var all []sortKey
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
			if all, err = v.breakTies(all); err != nil {
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
func (v *snapshot) top(ctx context.Context, f *host.Filter, limit int) ([]sortKey, error) {
	plans, err := v.plans(f)
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		limit = math.MaxInt
	}
	var all []sortKey
	for _, p := range plans {
		found, err := v.topOf(ctx, p, limit)
		if err != nil || len(plans) == 1 {
			return found, err
		}
		all = append(all, found...)
	}
	return v.firstOf(all, limit, nil)
}

// topOf is top for one plan of a filter.
func (v *snapshot) topOf(ctx context.Context, p *plan, limit int) (found []sortKey, err error) {
	if p.filter.IDs != nil {
		err := v.byID(p, needSortKey, func(m *match) error {
			found = append(found, m.sortKey)
			return nil
		})
		return v.firstOf(found, limit, err)
	}
	if n := len(p.keys) * max(len(p.kinds), 1); n > v.tune.collectSpans || p.kinds == nil && n > 1 {
		maximum := 2*min(limit, v.tune.maxChunk) + v.tune.collectSpan*n
		if p.residual == needEvent {
			maximum = v.tune.collectFull
		}
		d := v.store.density(p)
		if !d.many(n, maximum) {
			all, keys, few, err := v.candidates(p, maximum)
			if err != nil {
				return nil, err
			}
			if few {
				d.met(len(all)/p.width(), n)
				found, err = v.selected(ctx, p, all, nil)
				return v.firstOf(found, limit, err)
			}
			d.met(maximum, keys*max(len(p.kinds), 1))
		}
		if p.kinds == nil && d.perSpan.Load() < 16*int64(v.wholeKey(p)) {
			if found, p.keys, err = v.whole(ctx, p); err != nil || len(p.keys) == 0 {
				return v.firstOf(found, limit, err)
			}
		}
	}
	return v.mergeSpans(ctx, p, limit, found)
}

func (s *Store) density(p *plan) *density {
	if p.kinds == nil {
		return &s.densities[p.name][0]
	}
	return &s.densities[p.name][1]
}

// firstOf sorts sort keys and leaves the first limit.
func (v *snapshot) firstOf(found []sortKey, limit int, err error) ([]sortKey, error) {
	if err == nil {
		found, err = v.breakTies(best(found, limit))
	}
	if err != nil {
		return nil, err
	}
	return found[:min(limit, len(found))], nil
}

// candidates returns the sort keys of all keys and kinds if they are few, which is as many as
// most says, and else some of them. keys is how many keys those in the table are of.
func (v *snapshot) candidates(p *plan, limit int) (packed []byte, keys int, few bool, err error) {
	sql, args := v.collect(p, packCandidates, limit+1)
	row, err := v.first(sql, args...)
	if err != nil {
		return nil, 0, false, err
	}
	packed, _ = row[0].([]byte)
	last, _ := row[1].(int64)
	if len(packed)%p.width() != 0 {
		return nil, 0, false, errSortKeys
	}
	few = len(packed) <= limit*p.width()
	v.recentSpans(p, func(key []byte, kind int64, _ int) {
		if !few || err != nil {
			return
		}
		var recent []byte
		var more bool
		recent, _, more, err = v.recentSortKeys(key, kind, above(p.newest), under(p.oldest), limit+1, p.width())
		packed = append(packed, recent...)
		few = !more && len(packed) <= limit*p.width()
	})
	return packed, int(last) + 1, few, err
}

// wholeKey is how many sort keys of a key whole reads at most.
func (v *snapshot) wholeKey(p *plan) int {
	if p.residual == needEvent {
		return v.tune.wholeKeyFull
	}
	return v.tune.wholeKey
}

// whole reads the keys that have few events, whatever the kind. It returns the events that it
// selects of them, and the other keys. To find out which kinds a key has costs as much as to
// read all its events.
func (v *snapshot) whole(ctx context.Context, p *plan) (found []sortKey, rest [][]byte, err error) {
	limit := v.wholeKey(p)
	var all []byte
	width := p.width()
	many := map[string]bool{} // keys of which a span in memory is not to be read whole
	v.recentSpans(p, func(key []byte, _ int64, rows int) {
		if rows > limit {
			many[string(key)] = true
		}
	})
	small := *p
	small.keys = nil
	err = v.each(ctx, keySortKeys, list(jsonHex(p.keys), int64(limit+1), p.low, p.high), func(row []driver.Value) error {
		packed, _ := row[1].([]byte)
		key := p.keys[row[0].(int64)]
		if len(packed) > limit*width || many[string(key)] {
			rest = append(rest, key)
			return nil
		}
		small.keys = append(small.keys, key)
		all = append(all, packed...)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	v.recentSpans(&small, func(key []byte, kind int64, _ int) {
		if err == nil {
			var more []byte
			more, _, _, err = v.recentSortKeys(key, kind, above(p.newest), under(p.oldest), limit, width)
			all = append(all, more...)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	found, err = v.selected(ctx, p, all, nil)
	return found, rest, err
}

// selected adds those of the packed sort keys whose event the plan selects to found.
func (v *snapshot) selected(ctx context.Context, p *plan, packed []byte, found []sortKey) ([]sortKey, error) {
	found = slices.Grow(found, len(packed)/p.width())
	for piece := v.chunk(p) * p.width(); len(packed) > 0; {
		part := packed[:min(len(packed), piece)]
		packed = packed[len(part):]
		err := v.sortKeys(p, needSortKey, part, func(m *match) error {
			found = append(found, m.sortKey)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := v.pause(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// mergeSpans adds the first limit matches of the spans to those that were found elsewhere,
// and returns the first limit of all. It reads a piece of every span. The last of the
// best that are known then bounds what can still be in the answer, and where a span may
// have more within that bound, it is read on: all such spans by one statement.
func (v *snapshot) mergeSpans(ctx context.Context, p *plan, limit int, found []sortKey) ([]sortKey, error) {
	// One more than is wanted shows whether the last sort key is shared.
	size := min(limit, v.tune.maxChunk-1) + 1
	if spans := len(p.keys) * max(len(p.kinds), 1); spans > 1 {
		size = max(2*size/spans, v.tune.minChunk)
	}
	size = min(size, v.chunk(p))
	var spans []*cursor
	var all []byte
	err := v.open(ctx, p, size, func(c *cursor, packed string) error {
		all = append(all, packed...)
		if !c.ended {
			spans = append(spans, c)
		}
		return nil
	})
	oldest := p.oldest
	for {
		if err == nil {
			found, err = v.selected(ctx, p, all, found)
		}
		if err != nil {
			return nil, err
		}
		if len(spans) == 0 {
			return v.firstOf(found, limit, nil)
		}
		if found = best(found, limit); len(found) >= limit {
			last := found[limit-1]
			oldest = max(oldest, last.at)
			spans = slices.DeleteFunc(spans, func(c *cursor) bool { return last.before(parseSortKey(c.last)) })
		}
		if spans, all, err = v.further(ctx, p, spans, oldest, all[:0]); err != nil {
			return nil, err
		}
	}
}

// best returns the sort keys that can be among the first limit, in order and each once,
// and perhaps some more. It changes found.
func best(found []sortKey, limit int) []sortKey {
	if enough := 2 * limit; limit < len(found)/2 {
		// An event under several keys counts once, so some more are kept.
		nth(found, enough)
		first := slices.Clone(found[:enough])
		slices.SortFunc(first, sortKey.compare)
		first = slices.Compact(first)
		if len(first) >= limit && !first[len(first)-1].tied(first[limit-1]) {
			return first
		}
	}
	slices.SortFunc(found, sortKey.compare)
	return slices.Compact(found)
}

// nth puts the first n sort keys before all others, in no order: quickselect.
func nth(found []sortKey, n int) {
	for low, high := 0, len(found); high-low > 1; {
		// By lot, so that nobody can arrange for a bad case.
		pivot := found[low+rand.IntN(high-low)]
		i, j := low, high-1
		for i <= j {
			for found[i].compare(pivot) < 0 {
				i++
			}
			for found[j].compare(pivot) > 0 {
				j--
			}
			if i <= j {
				found[i], found[j] = found[j], found[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			high = j + 1
		case n >= i:
			low = i
		default:
			return
		}
	}
}

// breakTies puts sort keys in the order of answers, each once. Ids that start alike
// are looked up.
func (v *snapshot) breakTies(found []sortKey) ([]sortKey, error) {
	if !slices.IsSortedFunc(found, sortKey.compare) {
		slices.SortFunc(found, sortKey.compare)
	}
	found = slices.Compact(found)
	for i := 0; i < len(found); {
		j := i + 1
		for j < len(found) && found[j].tied(found[i]) {
			j++
		}
		if j-i > 1 {
			if err := v.orderTied(found[i:j]); err != nil {
				return nil, err
			}
		}
		i = j
	}
	return found, nil
}

func (v *snapshot) orderTied(found []sortKey) error {
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
	slices.SortFunc(found, func(a, b sortKey) int { return strings.Compare(ids[a.seq], ids[b.seq]) })
	return nil
}

// Scan calls yield for each event that matches, up to limit of them, and returns how many they
// were. A caller that must know whether there are more asks for one more. Every event with a
// Seq up to seq was visible to it. yield must not wait.
//
// If the filter has a limit, the order is that of answers. Otherwise it is that
// of the index: newest first, ties by lowest id, where the filter names no kinds,
// authors, tags or ids; for others such runs follow each other.
func (s *Store) Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error) {
	if f.Limit >= 0 {
		limit = min(limit, f.Limit)
	}
	err = s.view(ctx, metrics.Scan, now, func(v *snapshot) error {
		seq = v.seq
		if empty(&f) || limit <= 0 {
			return nil
		}
		give := func(m *match) error {
			yield(m.at, m.id)
			if n++; n == limit {
				return errStop
			}
			return nil
		}
		var err error
		if f.Limit >= 0 {
			err = v.scanTop(ctx, &f, limit, give)
		} else {
			err = v.every(ctx, []host.Filter{f}, needID, give)
		}
		if errors.Is(err, errStop) {
			return nil
		}
		return err
	})
	return seq, n, err
}

func (v *snapshot) scanTop(ctx context.Context, f *host.Filter, limit int, give func(*match) error) error {
	found, err := v.top(ctx, f, limit)
	if err != nil {
		return err
	}
	all := &plan{filter: f}
	for len(found) > 0 {
		part := make([]match, min(len(found), v.tune.maxChunk))
		for i := range part {
			part[i].sortKey = found[i]
		}
		if err := v.lookUp(all, needMeta, part, give); err != nil {
			return err
		}
		found = found[len(part):]
	}
	return nil
}
