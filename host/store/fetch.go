package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"math"

	"talon/host"
)

const (
	fetchRows  = 256
	fetchBytes = 1 << 20
)

// text is the JSON of a row.
type text struct {
	seq  int64
	json []byte
}

// Fetch calls yield with the JSON of each row in the given order. Rows that have gone
// since Select are left out, unless their text is remembered. yield may wait, but must not change the text, and may keep it: no reader is held
// meanwhile. Its error ends Fetch and is returned as it is. About a megabyte of
// text is in memory at a time, beside what is remembered anyway.
func (s *Store) Fetch(ctx context.Context, rows []int64, yield func(row int64, json []byte) error) error {
	var texts []text
	for len(rows) > 0 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("fetch events: %w", context.Cause(ctx))
		}
		var err error
		if texts, err = s.part(ctx, rows[:min(len(rows), fetchRows)], texts[:0]); err != nil {
			return err
		}
		for i, t := range texts {
			texts[i] = text{}
			if t.json == nil {
				continue
			}
			if err := yield(t.seq, t.json); err != nil {
				return err
			}
		}
		rows = rows[len(texts):]
	}
	return nil
}

// part appends the texts of the first rows to texts, nil for those that have
// gone. It stops early when it has read enough.
func (s *Store) part(ctx context.Context, rows []int64, texts []text) ([]text, error) {
	var unknown []int64
	var at []int // of the unknown, in texts
	for i, seq := range rows {
		t := text{seq, s.texts.Get(seq)}
		if t.json == nil {
			unknown, at = append(unknown, seq), append(at, i)
		}
		texts = append(texts, t)
	}
	if len(unknown) == 0 {
		return texts, nil
	}
	size := 0
	err := s.use(ctx, opFetch, func(r *reader) error {
		return r.each(context.Background(), eventText, list(jsonInts(unknown)), func(row []driver.Value) error {
			packed, _ := row[1].([]byte)
			json, err := unpack(packed)
			if err != nil {
				return fmt.Errorf("event %v: %w", row[0], err)
			}
			i := at[row[2].(int64)]
			texts[i].json = json
			s.texts.Add(texts[i].seq, json)
			if size += len(json); size >= fetchBytes {
				texts = texts[:i+1]
				return io.EOF
			}
			return nil
		})
	})
	return texts, err
}

// Headers returns [host.Event.Header] of each row in the given order. Rows that have
// gone since Select are left out.
func (s *Store) Headers(ctx context.Context, rows []int64) (list [][]byte, err error) {
	err = s.use(ctx, opFetch, func(r *reader) error {
		const sql = `SELECT e.id, e.pubkey, e.created_at, e.kind FROM json_each(?) r CROSS JOIN event e ON e.seq = r.value`
		return r.each(ctx, sql, []driver.Value{jsonInts(rows)}, func(row []driver.Value) error {
			list = append(list, header(row).JSON)
			return nil
		})
	})
	return list, err
}

// header reads the columns id, pubkey, created_at and kind.
func header(row []driver.Value) *host.Event {
	var e host.Event
	id, _ := row[0].([]byte)
	pubkey, _ := row[1].([]byte)
	copy(e.ID[:], id)
	copy(e.PubKey[:], pubkey)
	e.CreatedAt, _ = row[2].(int64)
	kind, _ := row[3].(int64)
	e.Kind = host.Kind(kind)
	return e.Header()
}

// Get returns the JSON of the event, nil if it is not stored. Whether it has
// expired is not looked at.
func (s *Store) Get(ctx context.Context, id host.ID) (json []byte, err error) {
	err = s.use(ctx, opGet, func(r *reader) error {
		row, err := r.first(`SELECT json FROM event WHERE id = ?`, id[:])
		if row != nil {
			packed, _ := row[0].([]byte)
			json, err = unpack(packed)
		}
		return err
	})
	return json, err
}

// Missing returns those of ids that are not stored.
func (s *Store) Missing(ctx context.Context, ids []host.ID) (missing []host.ID, err error) {
	err = s.use(ctx, opMissing, func(r *reader) error {
		for i := range ids {
			if i%fetchRows == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			row, err := r.first(`SELECT 1 FROM event WHERE id = ?`, ids[i][:])
			if err != nil {
				return err
			}
			if row == nil {
				missing = append(missing, ids[i])
			}
		}
		return nil
	})
	return missing, err
}

// Referenced reports whether a stored event names the id or address in one of
// its [host.ReferenceTags].
func (s *Store) Referenced(ctx context.Context, idOrAddress string) (found bool, err error) {
	err = s.view(ctx, opReferenced, math.MinInt64, func(v *snapshot) error {
		for _, name := range []byte(host.ReferenceTags) {
			p := &plan{keys: [][]byte{s.keys.key(name, idOrAddress)}, byTag: true, newest: math.MaxInt64}
			row, err := v.first(`SELECT 1 FROM posting WHERE key = ? LIMIT 1`, p.keys[0])
			found = row != nil
			v.recentSpans(p, func(key []byte, kind int64, rows int) {
				if !found && err == nil {
					var packed []byte
					packed, _, _, err = v.recentPlaces(key, kind, above(p.newest), under(p.oldest), rows, p.width())
					found = len(packed) > 0
				}
			})
			if err != nil || found {
				return err
			}
		}
		return nil
	})
	return found, err
}
