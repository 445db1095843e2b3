package store

import (
	"context"
	"database/sql/driver"
	"fmt"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// The requests to vanish, as package semantics reads and writes them.

// Vanish notes a request to vanish: see [semantics.Vanish].
func (tx *Tx) Vanish(v *host.VanishRequest) (out host.Outcome, err error) {
	if err = tx.ready(); err == nil {
		if out, err = contained(tx, func() (host.Outcome, error) { return semantics.Vanish(rows{tx}, v) }); err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return host.Outcome{}, fmt.Errorf("note a request to vanish: %w", err)
	}
	return out, nil
}

// VanishedTotal returns how many authors have asked to vanish.
func (r rows) VanishedTotal() int64 { return r.tx.total.Vanished }

// selectVanished reads the columns of a [host.VanishRequest].
const selectVanished = `SELECT number, pubkey, until, id, json FROM vanished `

func vanishedRow(row []driver.Value) (v host.VanishRequest) {
	v.Number, _ = row[0].(int64)
	pubkey, _ := row[1].([]byte)
	copy(v.PubKey[:], pubkey)
	v.Until, _ = row[2].(int64)
	id, _ := row[3].([]byte)
	copy(v.ID[:], id)
	v.JSON, _ = row[4].([]byte)
	return v
}

// VanishedOf returns the requests of these authors.
func (r rows) VanishedOf(authors []host.PubKey) (found []host.VanishRequest, err error) {
	for _, author := range authors {
		row, err := r.tx.w.conn.first(selectVanished+`WHERE pubkey = ?`, author[:])
		if err != nil {
			return nil, err
		}
		if row != nil {
			found = append(found, vanishedRow(row))
		}
	}
	return found, nil
}

// InsertVanished adds a request with the next number, in the place of an earlier one of its author.
func (r rows) InsertVanished(v *host.VanishRequest, limit int64) error {
	tx, c := r.tx, r.tx.w.conn
	row, err := c.first(`SELECT ifnull(max(number), 0) + 1 FROM vanished`)
	if err != nil {
		return err
	}
	n, err := c.change(`DELETE FROM vanished WHERE pubkey = ?`, v.PubKey[:])
	if err != nil {
		return err
	}
	tx.work++
	tx.total.Vanished += 1 - n
	if err := c.exec(`INSERT INTO vanished VALUES (?, ?, ?, ?, ?)`, row[0], v.PubKey[:], v.Until, v.ID[:], blob(v.JSON)); err != nil || v.JSON != nil {
		return err
	}
	n, err = c.change(`
		DELETE FROM vanished WHERE number <= (SELECT number FROM vanished INDEXED BY vanished_unknown WHERE json IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?) AND json IS NULL`, limit)
	tx.total.Vanished -= n
	return err
}

// VanishedAfter returns requests to vanish with higher numbers than one, at most limit, in the order
// of numbers.
func (s *Store) VanishedAfter(ctx context.Context, number int64, limit int) (found []host.VanishRequest, err error) {
	err = s.use(ctx, metrics.Moderation, func(r *reader) error {
		return r.each(ctx, selectVanished+`WHERE number > ? ORDER BY number LIMIT ?`, list(number, int64(limit)), func(row []driver.Value) error {
			found = append(found, vanishedRow(row))
			return nil
		})
	})
	return found, err
}

// HiddenOf returns hidden events of an author, or of a kind if the author is nil, with higher numbers
// than one, at most limit, in the order of numbers.
func (s *Store) HiddenOf(ctx context.Context, author *host.PubKey, kind host.Kind, number int64, limit int) (found []semantics.Hidden, err error) {
	err = s.use(ctx, metrics.Moderation, func(r *reader) (err error) {
		if author != nil {
			found, err = r.hidden(nil, selectHidden+`INDEXED BY hidden_author WHERE pubkey = ? AND number > ? ORDER BY number LIMIT ?`, author[:], number, int64(limit))
			return err
		}
		found, err = r.hidden(nil, selectHidden+`INDEXED BY hidden_kind WHERE kind = ? AND number > ? ORDER BY number LIMIT ?`, int64(kind), number, int64(limit))
		return err
	})
	return found, err
}

// checkVanished compares the number of requests to vanish with the totals.
func (c *checker) checkVanished(ctx context.Context, total int64) error {
	n, err := c.number(ctx, `SELECT count(*) FROM vanished`)
	if err == nil && n != total {
		c.problem("totals: %d requests to vanish noted, %d there", total, n)
	}
	return err
}
