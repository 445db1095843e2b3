package store

import (
	"bytes"
	"context"
	"database/sql/driver"

	"talon/host/store/semantics"
	"talon/host/wire"
)

// checkHidden compares hidden events and requests to vanish with the totals, and hidden events with
// their index rows.
func (c *checker) checkHidden(ctx context.Context) error {
	t, err := c.total()
	if err != nil {
		return err
	}
	var n, size, maintained int64
	err = c.each(ctx, `SELECT number, id, json FROM hidden`, nil, func(row []driver.Value) error {
		text, _ := row[2].([]byte)
		n++
		size += int64(len(text))
		e, err := wire.ParseEvent(text)
		if id, _ := row[1].([]byte); err != nil || !bytes.Equal(id, e.ID[:]) {
			c.problem("hidden event %v (id %x): its text does not agree with its row: %v", row[0], row[1], err)
			return nil
		}
		semantics.Maintained(e, func(string) { maintained++ })
		if err := c.verify(e); err != nil {
			c.problem("hidden event %v (%s): %v", row[0], e.ID, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if t.Hidden != n || t.HiddenBytes != size {
		c.problem("totals: %d hidden events of %d bytes noted, %d of %d there", t.Hidden, t.HiddenBytes, n, size)
	}
	rows, err := c.number(ctx, `SELECT count(*) FROM hidden_maintainer`)
	if err == nil && rows != maintained {
		c.problem("index of maintainers of hidden announcements: %d rows, want %d", rows, maintained)
	}
	if err != nil {
		return err
	}
	return c.checkVanished(ctx, t.Vanished)
}
