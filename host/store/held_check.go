package store

import (
	"bytes"
	"context"
	"database/sql/driver"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// checkHeld compares purgatory with itself and with what is stored.
func (c *checker) checkHeld(ctx context.Context) error {
	var held, size, postings int64
	last := int64(0)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var part [][]driver.Value
		const sql = `
			SELECT number, json, id, pubkey, created_at, kind, address, since, due, dormant
			FROM held WHERE number > ? ORDER BY number LIMIT ?`
		err := c.each(context.Background(), sql, list(last, int64(fetchRows)), func(row []driver.Value) error {
			part = append(part, append([]driver.Value(nil), row...))
			return nil
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			break
		}
		for _, row := range part {
			last, _ = row[0].(int64)
			text, _ := row[1].([]byte)
			held++
			size += int64(len(text))
			e, err := wire.ParseEvent(text)
			if err != nil {
				c.problem("held event %d (id %x): its text cannot be read: %v", last, row[2], err)
				continue
			}
			if err := c.checkHeldRow(e, row); err != nil {
				return err
			}
			c.rows = c.keys.heldPostings(c.rows[:0], e, last)
			postings += int64(len(c.rows))
			for _, r := range c.rows {
				found, err := c.first(`SELECT 1 FROM held_posting WHERE key = ? AND place = ? AND kind = ? AND held = ?`, r.key, r.place, r.kind, last)
				if err != nil {
					return err
				}
				if found == nil {
					c.problem("held event %d (%s): not in the index under key %x", last, e.ID, r.key)
				}
			}
		}
	}
	t, err := c.total()
	if err != nil {
		return err
	}
	if t.Held != held || t.HeldBytes != size {
		c.problem("totals: %d held events of %d bytes noted, %d of %d held", t.Held, t.HeldBytes, held, size)
	}
	n, err := c.number(ctx, `SELECT count(*) FROM held_posting`)
	if err != nil || n == postings {
		return err
	}
	c.problem("index of held events: %d rows, the events call for %d", n, postings)
	return nil
}

// checkHeldRow takes the columns that checkHeld reads.
func (c *checker) checkHeldRow(e *host.Event, row []driver.Value) error {
	number := row[0]
	id, _ := row[2].([]byte)
	pubkey, _ := row[3].([]byte)
	address, _ := row[6].([]byte)
	since, _ := row[7].(int64)
	var key []byte
	a, addressed := e.Address()
	if addressed {
		key = c.keys.address(a)
	}
	if !bytes.Equal(id, e.ID[:]) || !bytes.Equal(pubkey, e.PubKey[:]) || row[4] != e.CreatedAt || row[5] != int64(e.Kind) || !bytes.Equal(address, key) {
		c.problem("held event %d (%s): its row does not agree with its text", number, e.ID)
	}
	if row[8] != semantics.Due(e, since, row[9] == int64(1)) {
		c.problem("held event %d (%s): due at %v, which is wrong for one held since %d", number, e.ID, row[8], since)
	}
	if err := c.verify(e); err != nil {
		c.problem("held event %d (%s): %v", number, e.ID, err)
	}
	for _, test := range []struct {
		sql  string
		args []driver.Value
		what string
	}{
		{`SELECT 1 FROM event WHERE id = ?`, list(e.ID[:]), "held, but stored as well"},
		{`SELECT 1 FROM deleted_id WHERE id = ? AND pubkey = ? AND ? <> 5`, list(e.ID[:], e.PubKey[:], int64(e.Kind)), "held, but deleted by its author"},
		{`SELECT 1 FROM deleted_address WHERE key = ? AND until >= ?`, list(key, e.CreatedAt), "held, but its author deleted its address"},
		{
			`SELECT 1 FROM address WHERE key = ?1 AND (created_at > ?2 OR created_at = ?2 AND id < ?3)`,
			list(key, e.CreatedAt, e.ID[:]), "held, but a newer version is stored",
		},
		{
			`SELECT 1 FROM held INDEXED BY held_address WHERE address = ? AND ? = 30617 AND number <> ?`,
			list(key, int64(e.Kind), number), "held beside another version of the announcement",
		},
	} {
		found, err := c.first(test.sql, test.args...)
		if err != nil {
			return err
		}
		if found != nil {
			c.problem("held event %d (%s): %s", number, e.ID, test.what)
		}
	}
	return nil
}
