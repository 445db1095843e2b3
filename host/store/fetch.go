package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"talon/host"
	"talon/host/store/metrics"
)

// Fetch calls yield with the JSON of each row in the given order. It leaves out rows that have
// gone since Select, unless their text is in the cache. yield may wait, since no reader is
// held while it runs. yield must not change the text. To keep it for long, yield copies it,
// since other texts share its piece of memory. Fetch ends at an error of yield and returns it
// as it is. About a megabyte of text is in memory at a time, in addition to the cache.
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
		t := text{seq, s.eventCache.Get(seq)}
		if t.json == nil {
			unknown, at = append(unknown, seq), append(at, i)
		}
		texts = append(texts, t)
	}
	if len(unknown) == 0 {
		return texts, nil
	}
	size := 0
	var room []byte // for a text, until it is kept
	add := func(n int64, packed []byte) error {
		t := &texts[at[n]]
		json, err := unpack(room[:0], packed)
		if err != nil {
			return fmt.Errorf("event %d: %w", t.seq, err)
		}
		if cap(json) > cap(room) {
			room = json
		}
		if t.json = s.eventCache.Add(t.seq, json); t.json == nil {
			t.json = bytes.Clone(json)
		}
		size += len(json)
		return nil
	}
	err := s.use(ctx, metrics.Fetch, func(r *reader) error {
		row, err := r.first(shortTexts, jsonInts(unknown), int64(shortText))
		if err != nil {
			return err
		}
		long, err := eachShort(row, add)
		if err != nil || len(long) == 0 {
			return err
		}
		seqs := make([]int64, len(long))
		for i, n := range long {
			seqs[i] = unknown[n]
		}
		return r.each(context.Background(), eventText, list(jsonInts(seqs)), func(row []driver.Value) error {
			packed, _ := row[1].([]byte)
			n := long[row[2].(int64)]
			if err := add(n, packed); err != nil {
				return err
			}
			if size >= fetchBytes {
				texts = texts[:at[n]+1]
				return io.EOF
			}
			return nil
		})
	})
	return texts, err
}

// eachShort calls yield with the number and the packed text of each short event in a row
// of shortTexts, and returns the numbers of the others.
func eachShort(row []driver.Value, yield func(n int64, packed []byte) error) (long []int64, err error) {
	packed, _ := row[0].([]byte)
	numbers, _ := row[1].(string)
	lengths, _ := row[2].(string)
	for numbers != "" {
		var number, length string
		number, numbers, _ = strings.Cut(numbers, ",")
		length, lengths, _ = strings.Cut(lengths, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(length)
		switch {
		case err != nil:
			return nil, err
		case size > shortText:
			long = append(long, n)
			continue
		case size > len(packed):
			return nil, errPacked
		}
		if err := yield(n, packed[:size]); err != nil {
			return nil, err
		}
		packed = packed[size:]
	}
	return long, nil
}

// Headers returns [host.Event.Header] of each row in the given order. Rows that have
// gone since Select are left out.
func (s *Store) Headers(ctx context.Context, rows []int64) (list [][]byte, err error) {
	err = s.use(ctx, metrics.Fetch, func(r *reader) error {
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

// Get returns the JSON of the event, nil if it is not stored. Get also returns an event that
// has expired.
func (s *Store) Get(ctx context.Context, id host.ID) (json []byte, err error) {
	err = s.use(ctx, metrics.Get, func(r *reader) error {
		row, err := r.first(`SELECT json FROM event WHERE seq = (`+eventOfID+`)`, r.keys.id(id))
		if row != nil {
			packed, _ := row[0].([]byte)
			json, err = unpack(nil, packed)
		}
		return err
	})
	return json, err
}

// Missing returns those of ids that are not stored.
func (s *Store) Missing(ctx context.Context, ids []host.ID) (missing []host.ID, err error) {
	err = s.use(ctx, metrics.Missing, func(r *reader) error {
		for i := range ids {
			if i%fetchRows == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			row, err := r.first(eventOfID, r.keys.id(ids[i]))
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
	err = s.view(ctx, metrics.Referenced, math.MinInt64, func(v *snapshot) error {
		for _, name := range []byte(host.ReferenceTags) {
			p := &plan{keys: [][]byte{s.keys.key(name, idOrAddress)}, byTag: true, high: 2 * withheldKinds, newest: math.MaxInt64}
			row, err := v.first(`SELECT 1 FROM posting WHERE key = ? LIMIT 1`, p.keys[0])
			found = row != nil
			v.recentSpans(p, func(key []byte, kind int64, rows int) {
				if !found && err == nil {
					var packed []byte
					packed, _, _, err = v.recentSortKeys(key, kind, above(p.newest), under(p.oldest), rows, p.width())
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

// Export calls yield with the JSON of every stored event, oldest first: the reverse of the
// order of answers. Events that have expired, but were not swept yet, are among them. yield
// may wait. Export ends at an error of yield and returns it as it is.
//
// It reads piece by piece, so that writers can go on all the time. An event that is stored
// during the export may be among them or not.
func (s *Store) Export(ctx context.Context, yield func(json []byte) error) error {
	const part = `SELECT place FROM (SELECT place FROM posting WHERE key = ?1 AND kind = %d AND place < ?2 ORDER BY place DESC LIMIT ?3)`
	sql := fmt.Sprintf(part+` UNION ALL `+part+` ORDER BY place DESC LIMIT ?3`, 0, withheldKinds)
	last := under(0)
	for {
		var rows []int64
		err := s.use(ctx, metrics.Export, func(r *reader) error {
			return r.each(context.Background(), sql, list(keyTime, last, int64(fetchRows)), func(row []driver.Value) error {
				b, _ := row[0].([]byte)
				if len(b) != longSortKey {
					return errSortKeys
				}
				last = b
				rows = append(rows, parseSortKey(b).seq)
				return nil
			})
		})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		err = s.Fetch(ctx, rows, func(_ int64, json []byte) error { return yield(json) })
		if err != nil {
			return err
		}
	}
}
