package store

import (
	"context"
	"database/sql/driver"
	"fmt"

	"talon/host/moderation"
	"talon/host/store/metrics"
)

// AddModeration adds rows to the moderation log: see [moderation.Add].
func (tx *Tx) AddModeration(list []moderation.Row, now int64) (added []moderation.Row, err error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("add to the moderation log: %w", err)
	}
	added, err = contained(tx, func() ([]moderation.Row, error) { return moderation.Add(rows{tx}, list, now) })
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("add to the moderation log: %w", err)
	}
	return added, nil
}

// LastModeration returns the number and the time of the last row of the log.
func (r rows) LastModeration() (number, at int64, err error) {
	row, err := r.tx.w.conn.first(`SELECT ifnull((SELECT max(number) FROM moderation), 0), ifnull((SELECT max(at) FROM moderation), 0)`)
	if err != nil {
		return 0, 0, err
	}
	return row[0].(int64), row[1].(int64), nil
}

// HasModeration reports whether the log has a row with this UID.
func (r rows) HasModeration(uid string) (bool, error) {
	row, err := r.tx.w.conn.first(`SELECT 1 FROM moderation WHERE uid = ?`, uid)
	return row != nil, err
}

// InsertModeration adds a row to the log.
func (r rows) InsertModeration(row *moderation.Row) error {
	r.tx.work++
	return r.tx.w.conn.exec(`INSERT INTO moderation VALUES (?, ?, ?, ?)`, row.Number, row.UID, row.At, row.Line())
}

// Moderation returns the rows of the moderation log after a number, in the order of numbers.
func (s *Store) Moderation(ctx context.Context, after int64) (rows []moderation.Row, err error) {
	err = s.use(ctx, metrics.Moderation, func(r *reader) error {
		return r.each(ctx, `SELECT json FROM moderation WHERE number > ? ORDER BY number`, list(after), func(row []driver.Value) error {
			line, _ := row[0].([]byte)
			one, err := moderation.ParseLine(line)
			if err != nil {
				return fmt.Errorf("row %d: %w", after+int64(len(rows))+1, err)
			}
			rows = append(rows, one)
			return nil
		})
	})
	return rows, err
}
