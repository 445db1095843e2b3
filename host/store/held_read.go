package store

import (
	"context"
	"database/sql/driver"
	"io"
	"math"
	"slices"

	"talon/host"
	"talon/host/wire"
)

// Held returns the JSON of the event in purgatory, nil if it is not there.
func (s *Store) Held(ctx context.Context, id host.ID) (json []byte, err error) {
	if s.holdsNothing() {
		return nil, nil
	}
	err = s.use(ctx, opHeld, func(r *reader) error {
		row, err := r.first(`SELECT json FROM held WHERE id = ?`, id[:])
		if row != nil {
			json, _ = row[0].([]byte)
		}
		return err
	})
	return json, err
}

// HeldBy returns the JSON of the events in purgatory that match, newest first, ties
// by lowest id. A negative limit is none.
func (s *Store) HeldBy(ctx context.Context, f host.Filter) (texts [][]byte, err error) {
	if s.holdsNothing() || empty(&f) || f.Limit == 0 {
		return nil, nil
	}
	err = s.view(ctx, opHeld, math.MinInt64, func(v *snapshot) error {
		found, err := v.heldBy(ctx, &f)
		for _, e := range found {
			texts = append(texts, e.JSON)
		}
		return err
	})
	return texts, err
}

// holdsNothing saves most relays every look into purgatory. Another process may
// write beside a store that is read-only.
func (s *Store) holdsNothing() bool { return s.writer != nil && s.total.Load().Held == 0 }

// heldBy reads what is under each of the filter's keys until there are enough. An
// author has few held events, so authors come before tags, under which anybody may
// put his own.
func (v *snapshot) heldBy(ctx context.Context, f *host.Filter) (found []*host.Event, err error) {
	var keys [][]byte
	switch {
	case f.IDs != nil:
		return v.heldByID(ctx, f)
	case f.Authors != nil:
		keys = v.authorKeys(f.Authors)
	case len(f.Tags) > 0:
		for _, value := range f.Tags[0].Values {
			keys = append(keys, v.keys.key(f.Tags[0].Name, value))
		}
		keys = uniqueKeys(keys)
	default:
		keys = [][]byte{keyTime}
	}
	oldest, newest := int64(0), int64(math.MaxInt64)
	if f.Since != nil {
		oldest = *f.Since
	}
	if f.Until != nil {
		newest = *f.Until
	}
	var kinds driver.Value
	if f.Kinds != nil {
		kinds = jsonInts(sortedKinds(f.Kinds))
	}
	const sql = `
		SELECT h.json FROM held_posting p CROSS JOIN held h ON h.number = p.held
		WHERE p.key = ?1 AND p.place > ?2 AND p.place < ?3 AND (?4 IS NULL OR p.kind IN (SELECT value FROM json_each(?4)))
		ORDER BY p.place`
	for _, key := range keys {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n := 0
		var last int64
		err := v.each(ctx, sql, list(key, above(newest), under(oldest), kinds), func(row []driver.Value) error {
			e, err := parseHeld(row[0])
			if err != nil {
				return err
			}
			// Places of tags leave the order within a second open.
			if f.Limit > 0 && n >= f.Limit && e.CreatedAt != last {
				return io.EOF
			}
			if f.Matches(e) {
				found = append(found, e)
				n++
				last = e.CreatedAt
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return cutHeld(found, f.Limit), nil
}

func (v *snapshot) heldByID(ctx context.Context, f *host.Filter) (found []*host.Event, err error) {
	for i, id := range f.IDs {
		if i%fetchRows == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		row, err := v.first(`SELECT json FROM held WHERE id = ?`, id[:])
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		e, err := parseHeld(row[0])
		if err != nil {
			return nil, err
		}
		if f.Matches(e) {
			found = append(found, e)
		}
	}
	return cutHeld(found, f.Limit), nil
}

func parseHeld(v driver.Value) (*host.Event, error) {
	text, _ := v.([]byte)
	return wire.ParseEvent(text)
}

// cutHeld sorts events, each once, and leaves the first limit.
func cutHeld(found []*host.Event, limit int) []*host.Event {
	slices.SortFunc(found, func(a, b *host.Event) int {
		switch {
		case a.ID == b.ID:
			return 0
		case a.Before(b):
			return -1
		}
		return 1
	})
	found = slices.CompactFunc(found, func(a, b *host.Event) bool { return a.ID == b.ID })
	if limit > 0 {
		found = found[:min(limit, len(found))]
	}
	return found
}

// EachHeld calls yield for every event in purgatory, in the order in which they
// came. yield may wait: no reader is held meanwhile. Its error ends EachHeld and is
// returned as it is.
func (s *Store) EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error {
	last := int64(0)
	for {
		var part []host.HeldEvent
		err := s.use(ctx, opHeld, func(r *reader) error {
			const sql = `SELECT number, json, since, dormant FROM held WHERE number > ? ORDER BY number LIMIT ?`
			size := 0
			return r.each(context.Background(), sql, list(last, int64(fetchRows)), func(row []driver.Value) error {
				last, _ = row[0].(int64)
				h := heldEvent(row[1:])
				part = append(part, h)
				if size += len(h.JSON); size >= fetchBytes {
					return io.EOF
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			return nil
		}
		for _, h := range part {
			if err := yield(h); err != nil {
				return err
			}
		}
	}
}

// HeldEvent returns the event in purgatory with this id, and whether it is there.
func (s *Store) HeldEvent(ctx context.Context, id host.ID) (h host.HeldEvent, ok bool, err error) {
	if s.holdsNothing() {
		return host.HeldEvent{}, false, nil
	}
	err = s.use(ctx, opHeld, func(r *reader) error {
		row, err := r.first(`SELECT json, since, dormant FROM held WHERE id = ?`, id[:])
		if err != nil || row == nil {
			return err
		}
		h = heldEvent(row)
		ok = true
		return nil
	})
	return h, ok, err
}

// heldEvent reads the columns json, since and dormant.
func heldEvent(row []driver.Value) (h host.HeldEvent) {
	h.JSON, _ = row[0].([]byte)
	h.Since, _ = row[1].(int64)
	h.Dormant = row[2] == int64(1)
	return h
}
