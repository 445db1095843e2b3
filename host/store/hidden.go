package store

import (
	"context"
	"database/sql/driver"
	"fmt"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// The rows of hidden events, as packages semantics and purgatory read and write them.

// TakeDown hides, purges or shows events: see [purgatory.TakeDown].
func (tx *Tx) TakeDown(t host.Takedown, now int64) (out host.TakedownOutcome, err error) {
	if err := tx.ready(); err != nil {
		return out, fmt.Errorf("take events down: %w", err)
	}
	out, err = contained(tx, func() (host.TakedownOutcome, error) { return purgatory.TakeDown(rows{tx}, &t, now) })
	if err != nil {
		tx.failed = err
		return host.TakedownOutcome{}, fmt.Errorf("take events down: %w", err)
	}
	return out, nil
}

// HiddenTotal returns how many events are hidden.
func (r rows) HiddenTotal() int64 { return r.tx.total.Hidden }

// selectHidden reads the columns of a [semantics.Hidden].
const selectHidden = `SELECT number, id, pubkey, kind, created_at, json, audience FROM hidden `

func hiddenRow(row []driver.Value) (h semantics.Hidden) {
	h.Seq, _ = row[0].(int64)
	id, _ := row[1].([]byte)
	copy(h.ID[:], id)
	pubkey, _ := row[2].([]byte)
	copy(h.PubKey[:], pubkey)
	kind, _ := row[3].(int64)
	h.Kind = host.Kind(kind)
	h.CreatedAt, _ = row[4].(int64)
	h.JSON, _ = row[5].([]byte)
	var err error
	if h.Audience, err = audienceOf(row[6]); err != nil {
		h.Audience = host.Nobody
	}
	return h
}

// hidden appends the rows that a statement selects.
func (c *conn) hidden(found []semantics.Hidden, sql string, args ...driver.Value) ([]semantics.Hidden, error) {
	err := c.each(context.Background(), sql, args, func(row []driver.Value) error {
		found = append(found, hiddenRow(row))
		return nil
	})
	return found, err
}

// HiddenByID returns the hidden events among those ids.
func (r rows) HiddenByID(ids []host.ID) (found []semantics.Hidden, err error) {
	if r.tx.total.Hidden == 0 {
		return nil, nil
	}
	for _, id := range ids {
		if found, err = r.tx.w.conn.hidden(found, selectHidden+`INDEXED BY hidden_id WHERE id = ?`, id[:]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// HiddenAt returns the hidden events at those addresses.
func (r rows) HiddenAt(addresses []host.Address) (found []semantics.Hidden, err error) {
	if r.tx.total.Hidden == 0 {
		return nil, nil
	}
	for _, a := range addresses {
		if found, err = r.tx.w.conn.hidden(found, selectHidden+`INDEXED BY hidden_address WHERE address = ?`, r.tx.s.keys.address(a)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// InsertHidden adds a hidden event.
func (r rows) InsertHidden(e *host.Event) error {
	tx, c := r.tx, r.tx.w.conn
	var address, expires driver.Value
	if a, ok := e.Address(); ok {
		address = tx.s.keys.address(a)
	}
	if at, ok := e.Expiration(); ok {
		expires = at
		tx.expiryChanged = true
	}
	row, err := c.first(`
		INSERT INTO hidden (id, pubkey, created_at, kind, address, expires, json, audience) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING number`,
		e.ID[:], e.PubKey[:], e.CreatedAt, int64(e.Kind), address, expires, e.JSON, blob(e.Audience.Encode()))
	if err != nil {
		return err
	}
	semantics.Maintained(e, func(value string) {
		if err == nil {
			err = c.exec(`INSERT OR IGNORE INTO hidden_maintainer VALUES (?, ?)`, tx.s.keys.key(host.MaintainerOf, value), row[0])
		}
	})
	tx.work++
	tx.total.Hidden++
	tx.total.HiddenBytes += int64(len(e.JSON))
	return err
}

// RemoveHidden removes hidden events.
func (r rows) RemoveHidden(list []semantics.Hidden) error {
	tx, c := r.tx, r.tx.w.conn
	for _, h := range list {
		if h.Kind == host.KindAnnouncement {
			e, err := wire.ParseEvent(h.JSON)
			if err == nil {
				semantics.Maintained(e, func(value string) {
					if err == nil {
						err = c.exec(`DELETE FROM hidden_maintainer WHERE key = ? AND hidden = ?`, tx.s.keys.key(host.MaintainerOf, value), h.Seq)
					}
				})
				if err != nil {
					return err
				}
			}
		}
		n, err := c.change(`DELETE FROM hidden WHERE number = ?`, h.Seq)
		if err != nil {
			return err
		}
		if n > 0 { // the same event may be named twice
			tx.work++
			tx.expiryChanged = true
			tx.total.Hidden--
			tx.total.HiddenBytes -= int64(len(h.JSON))
		}
	}
	return nil
}

// sweepHidden removes hidden events that have expired by now, at most limit.
func (r rows) sweepHidden(now int64, limit int) error {
	if r.tx.total.Hidden == 0 {
		return nil
	}
	due, err := r.tx.w.conn.hidden(nil, selectHidden+`INDEXED BY hidden_expires WHERE expires <= ? LIMIT ?`, now, int64(limit))
	if err != nil || len(due) == 0 {
		return err
	}
	return r.RemoveHidden(due)
}

// AddRefused notes ids that sync does not fetch again. An id that is noted becomes the newest.
func (r rows) AddRefused(list []semantics.RefusedID) error {
	c := r.tx.w.conn
	for _, one := range list {
		if err := c.exec(`INSERT OR REPLACE INTO refused (id, created_at) VALUES (?, ?)`, one.ID[:], one.CreatedAt); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	return c.exec(`DELETE FROM refused WHERE number <= (SELECT max(number) FROM refused) - ?`, int64(semantics.MaxRefused))
}

// HiddenBy returns the JSON of the hidden events that match a filter, newest first. The filter is
// one of those of [semantics.HiddenKeys]; others match nothing.
func (s *Store) HiddenBy(ctx context.Context, f host.Filter) (texts [][]byte, err error) {
	if s.total.Load().Hidden == 0 {
		return nil, nil
	}
	ids, addresses, maintained := semantics.HiddenKeys(&f)
	var found []semantics.Hidden
	err = s.use(ctx, metrics.Moderation, func(r *reader) (err error) {
		for _, id := range ids {
			if found, err = r.hidden(found, selectHidden+`INDEXED BY hidden_id WHERE id = ?`, id[:]); err != nil {
				return err
			}
		}
		for _, a := range addresses {
			if found, err = r.hidden(found, selectHidden+`INDEXED BY hidden_address WHERE address = ?`, s.keys.key(nameAddress, a)); err != nil {
				return err
			}
		}
		for _, m := range maintained {
			const where = `WHERE number IN (SELECT hidden FROM hidden_maintainer WHERE key = ?)`
			if found, err = r.hidden(found, selectHidden+where, s.keys.key(host.MaintainerOf, m)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return semantics.MatchHidden(found, &f), nil
}

// HiddenAfter returns hidden events with higher numbers than one, at most limit, in the order of
// numbers.
func (s *Store) HiddenAfter(ctx context.Context, number int64, limit int) (found []semantics.Hidden, err error) {
	err = s.use(ctx, metrics.Moderation, func(r *reader) (err error) {
		found, err = r.hidden(nil, selectHidden+`WHERE number > ? ORDER BY number LIMIT ?`, number, int64(limit))
		return err
	})
	return found, err
}

// Refused calls yield for the ids that sync does not fetch again, with their dates, in the order in
// which they were noted last.
func (s *Store) Refused(ctx context.Context, yield func(semantics.RefusedID)) error {
	return s.use(ctx, metrics.Moderation, func(r *reader) error {
		return r.each(ctx, `SELECT id, created_at FROM refused ORDER BY number`, nil, func(row []driver.Value) error {
			var one semantics.RefusedID
			id, _ := row[0].([]byte)
			copy(one.ID[:], id)
			one.CreatedAt, _ = row[1].(int64)
			yield(one)
			return nil
		})
	})
}

// NotTakenDown returns those of ids that are neither hidden nor removed by the operator.
func (s *Store) NotTakenDown(ctx context.Context, ids []host.ID) (rest []host.ID, err error) {
	const sql = `SELECT 1 WHERE EXISTS (SELECT 1 FROM refused WHERE id = ?1) OR EXISTS (SELECT 1 FROM hidden WHERE id = ?1)`
	err = s.use(ctx, metrics.Missing, func(r *reader) error {
		for i := range ids {
			if i%fetchRows == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			row, err := r.first(sql, ids[i][:])
			if err != nil {
				return err
			}
			if row == nil {
				rest = append(rest, ids[i])
			}
		}
		return nil
	})
	return rest, err
}

// ClearRefused has sync fetch again what the operator has removed: see [rows.AddRefused].
func (r rows) ClearRefused() error { return r.tx.w.conn.exec(`DELETE FROM refused`) }
