package store

import (
	"context"
	"database/sql/driver"

	"talon/host"
)

func (tx *Tx) sweep(now int64, limit int) ([]*host.Event, error) {
	type entry struct{ at, seq int64 }
	var due []entry
	const sql = `SELECT at, event FROM expiry WHERE at <= ? ORDER BY at, event LIMIT ?`
	err := tx.w.conn.each(context.Background(), sql, list(now, int64(limit)), func(row []driver.Value) error {
		due = append(due, entry{row[0].(int64), row[1].(int64)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var removed []*host.Event
	for _, d := range due {
		e, err := tx.remove(d.seq)
		if err != nil {
			return nil, err
		}
		if e == nil {
			// An entry without its event is damage, which Check reports. Left alone
			// it would come up again with every sweep.
			if err := tx.unschedule(d.at, d.seq); err != nil {
				return nil, err
			}
			continue
		}
		removed = append(removed, e)
	}
	return removed, nil
}

func (tx *Tx) unschedule(at, seq int64) error {
	tx.dated = true
	return tx.w.conn.exec(`DELETE FROM expiry WHERE at = ? AND event = ?`, at, seq)
}
