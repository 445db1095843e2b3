package store

import (
	"context"
	"database/sql/driver"
	"io"
	"math"
	"slices"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/wire"
)

// Held returns the JSON of the event in purgatory, nil if it is not there.
func (s *Store) Held(ctx context.Context, id host.ID) (json []byte, err error) {
	if s.holdsNothing() {
		return nil, nil
	}
	err = s.use(ctx, metrics.Held, func(r *reader) error {
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
	err = s.view(ctx, metrics.Held, math.MinInt64, func(v *snapshot) error {
		found, err := v.heldBy(ctx, &f)
		for _, e := range found {
			texts = append(texts, e.JSON)
		}
		return err
	})
	return texts, err
}

// holdsNothing saves most relays every look into purgatory. A read-only store always looks,
// since another process may write.
func (s *Store) holdsNothing() bool { return s.writer != nil && s.total.Load().Held == 0 }

// heldBy reads what is under each of the filter's keys until there are enough.
func (v *snapshot) heldBy(ctx context.Context, f *host.Filter) (found []*host.Event, err error) {
	if f.IDs != nil {
		return v.heldByID(ctx, f)
	}
	for _, t := range f.Tags {
		if t.Name == host.AddressOf {
			return v.heldAt(ctx, f, t.Values)
		}
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
		SELECT p.place, h.id, h.pubkey, h.created_at, h.kind, iif(?5, NULL, h.json) FROM held_posting p CROSS JOIN held h ON h.number = p.held
		WHERE p.key = ?1 AND p.place > ?2 AND p.place < ?3 AND (?4 IS NULL OR p.kind IN (SELECT value FROM json_each(?4)))
		ORDER BY p.place`
	keys, exact := v.heldKeys(f)
	for _, key := range keys {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n := 0
		var last sortKey
		err := v.each(ctx, sql, list(key, above(newest), under(oldest), kinds, exact && f.Header), func(row []driver.Value) error {
			// Where sort keys of tags leave the order open, all that may be the last go along.
			at, _ := row[0].([]byte)
			if len(at) < shortSortKey {
				return errSortKeys
			}
			here := parseSortKey(at)
			if f.Limit > 0 && n >= f.Limit && !here.tied(last) {
				return io.EOF
			}
			e, ok, err := heldMatch(f, row[1:], exact)
			if ok {
				found = append(found, e)
				n++
				last = here
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return cutHeld(found, f.Limit), nil
}

// heldKeys are the keys under which all is that a filter selects. Few announcements
// list a maintainer, and an author has few held events, so both come before other tags,
// under which anybody may put his own. They are exact if the keys, with kinds and times,
// are all that the filter says.
func (v *snapshot) heldKeys(f *host.Filter) (keys [][]byte, exact bool) {
	tag := slices.IndexFunc(f.Tags, func(t host.TagFilter) bool { return t.Name == host.MaintainerOf })
	switch {
	case tag < 0 && f.Authors != nil:
		return v.authorKeys(f.Authors), len(f.Tags) == 0
	case len(f.Tags) > 0:
		tag = max(tag, 0)
		for _, value := range f.Tags[tag].Values {
			keys = append(keys, v.keys.key(f.Tags[tag].Name, value))
		}
		return uniqueKeys(keys), len(f.Tags) == 1 && f.Authors == nil
	}
	return [][]byte{keyTime}, true
}

// heldMatch reads the columns id, pubkey, created_at, kind and json of an event that may
// match. If it does for sure, and its header is enough, its text is not looked at.
func heldMatch(f *host.Filter, row []driver.Value, exact bool) (e *host.Event, ok bool, err error) {
	if exact && f.Header {
		return header(row), true, nil
	}
	e, err = parseHeld(row[4])
	if err != nil || !f.Matches(e) {
		return nil, false, err
	}
	if f.Header {
		e = e.Header()
	}
	return e, true, nil
}

// heldAt reads what is at addresses. Of kinds other than announcements there may be
// many versions.
func (v *snapshot) heldAt(ctx context.Context, f *host.Filter, addresses []string) (found []*host.Event, err error) {
	const sql = `SELECT id, pubkey, created_at, kind, iif(?2, NULL, json) FROM held INDEXED BY held_address WHERE address = ?1`
	exact := len(f.Tags) == 1 && f.Authors == nil && f.Kinds == nil && f.Since == nil && f.Until == nil
	for _, address := range addresses {
		err := v.each(ctx, sql, list(v.keys.key(nameAddress, address), exact && f.Header), func(row []driver.Value) error {
			e, ok, err := heldMatch(f, row, exact)
			if ok {
				found = append(found, e)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return cutHeld(found, f.Limit), nil
}

func (v *snapshot) heldByID(ctx context.Context, f *host.Filter) (found []*host.Event, err error) {
	exact := f.Authors == nil && f.Kinds == nil && f.Tags == nil && f.Since == nil && f.Until == nil
	for i, id := range f.IDs {
		if i%fetchRows == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		row, err := v.first(`SELECT id, pubkey, created_at, kind, iif(?2, NULL, json) FROM held WHERE id = ?1`, id[:], exact && f.Header)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		e, ok, err := heldMatch(f, row, exact)
		if err != nil {
			return nil, err
		}
		if ok {
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

// EachHeld calls yield for every event in purgatory, in the order in which they came. yield
// may wait, since no reader is held while it runs. EachHeld ends at an error of yield and
// returns it as it is.
func (s *Store) EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error {
	last := int64(0)
	for {
		var part []host.HeldEvent
		err := s.use(ctx, metrics.Held, func(r *reader) error {
			const sql = `SELECT number, json, since, dormant, parent, audience, synced, wake, due FROM held WHERE number > ? ORDER BY number LIMIT ?`
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
	err = s.use(ctx, metrics.Held, func(r *reader) error {
		row, err := r.first(`SELECT json, since, dormant, parent, audience, synced, wake, due FROM held WHERE id = ?`, id[:])
		if err != nil || row == nil {
			return err
		}
		h = heldEvent(row)
		ok = true
		return nil
	})
	return h, ok, err
}

// heldEvent reads the columns json, since, dormant, parent, audience, synced, wake and due.
func heldEvent(row []driver.Value) (h host.HeldEvent) {
	h.JSON, _ = row[0].([]byte)
	h.Since, _ = row[1].(int64)
	h.Dormant = row[2] == int64(1)
	h.Dependent = row[3] != nil
	var err error
	if h.Audience, err = audienceOf(row[4]); err != nil {
		h.Audience = host.Nobody
	}
	h.Synced = row[5] == int64(1)
	h.Wake, _ = row[6].([]byte)
	h.Due, _ = row[7].(int64)
	return h
}
