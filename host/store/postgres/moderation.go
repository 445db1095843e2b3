package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"talon/host/moderation"
	"talon/host/store/metrics"
)

// AddModeration adds rows to the moderation log: see [moderation.Add]. No other process adds any
// before the transaction ends, so the numbers have no gaps.
func (tx *Tx) AddModeration(list []moderation.Row, now int64) (added []moderation.Row, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			added, err = moderation.Add(rows{tx}, list, now)
			return err
		})
		if err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("add to the moderation log: %w", err)
	}
	return added, nil
}

// LastModeration returns the number and the time of the last row of the log.
func (r rows) LastModeration() (number, at int64, err error) {
	_, err = r.tx.row(`SELECT coalesce(max(number), 0), coalesce(max(at), 0) FROM moderation`, nil, &number, &at)
	return number, at, err
}

// HasModeration reports whether the log has a row with this UID.
func (r rows) HasModeration(uid string) (there bool, err error) {
	_, err = r.tx.row(`SELECT EXISTS (SELECT 1 FROM moderation WHERE uid = $1)`, []any{uid}, &there)
	return there, err
}

// InsertModeration adds a row to the log.
func (r rows) InsertModeration(row *moderation.Row) error {
	_, err := r.tx.exec(`INSERT INTO moderation VALUES ($1, $2, $3, $4)`, row.Number, row.UID, row.At, row.Line())
	r.tx.moderation = row.Number
	r.tx.work++
	return err
}

// Moderation returns the rows of the moderation log after a number, in the order of numbers.
func (s *Store) Moderation(ctx context.Context, after int64) (list []moderation.Row, err error) {
	lines, err := s.moderationLines(ctx, after)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		r, err := moderation.ParseLine(line)
		if err != nil {
			return nil, fmt.Errorf("read the moderation log after row %d: %w", after+int64(len(list)), err)
		}
		list = append(list, r)
	}
	return list, nil
}

func (s *Store) moderationLines(ctx context.Context, after int64) (lines [][]byte, err error) {
	err = s.each(ctx, metrics.Moderation, `SELECT json FROM moderation WHERE number > $1 ORDER BY number`, []any{after}, func(rows pgx.Rows) error {
		var line []byte
		err := rows.Scan(&line)
		lines = append(lines, line)
		return err
	})
	return lines, err
}

// Confirmed returns when all that others had committed was known here.
func (s *Store) Confirmed() time.Time { return time.Unix(0, s.confirmed.Load()) }
