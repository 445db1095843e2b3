package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"

	"talon/host"
)

// The state of plugins is in the same file as the events, and has transactions of its own.
// Table state is in no total and no Seq, and readers of events never look at it.

// There is no index of expiry times. Most of what is saved every second is buckets with a new
// time: 500 of 50,000 took 6 ms, and 13 ms with an index.

const (
	stateFound = 10_000 // entries that have expired, found by one scan
	stateSweep = 500    // removed in one transaction
)

// LoadState yields the state of plugins, including expired entries. Its values are the
// caller's. LoadState ends at an error of yield and returns it as it is. yield must not wait,
// since a reader is held while it runs.
func (s *Store) LoadState(ctx context.Context, yield func(host.StateEntry) error) error {
	r, err := s.acquire(ctx)
	if err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	defer s.release(r)
	var stop error
	const sql = `SELECT module, space, key, value, expires FROM state`
	err = r.each(ctx, sql, nil, func(row []driver.Value) error {
		e := stateKey(row)
		e.Value, _ = row[3].([]byte)
		e.Expires, _ = row[4].(int64)
		stop = yield(e)
		return stop
	})
	if err != nil && err != stop {
		return fmt.Errorf("load state: %w", err)
	}
	return err
}

// SaveState writes the entries, of which a later one of the same key wins, and
// removes those with no value, in one transaction: all or none, and durable when
// it returns nil.
//
// It waits for the open [Tx], and the next one waits for it. Callers split what is
// long.
func (s *Store) SaveState(ctx context.Context, entries []host.StateEntry) error {
	const (
		forget = `DELETE FROM state WHERE module = ? AND space = ? AND key = ?`
		upsert = `
			INSERT INTO state (module, space, key, expires, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (module, space, key) DO UPDATE SET expires = excluded.expires, value = excluded.value`
	)
	err := s.changeState(ctx, func(c *conn) error {
		for i := range entries {
			e := &entries[i]
			var err error
			if e.Value == nil {
				err = c.exec(forget, e.Module, int64(e.Space), []byte(e.Key))
			} else {
				err = c.exec(upsert, e.Module, int64(e.Space), []byte(e.Key), e.Expires, e.Value)
			}
			if err != nil {
				return fmt.Errorf("entry of %s: %w", e.Module, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

// SweepState removes the entries that have expired by now, a few at a time: it
// never holds up a commit for long.
func (s *Store) SweepState(ctx context.Context, now int64) error {
	for {
		found, err := s.expiredState(ctx, now)
		if err != nil {
			return fmt.Errorf("sweep state: %w", err)
		}
		for part := range slices.Chunk(found, stateSweep) {
			err := s.changeState(ctx, func(c *conn) error {
				// An entry may have got more time since it was found.
				const sql = `DELETE FROM state WHERE module = ? AND space = ? AND key = ? AND expires > 0 AND expires <= ?`
				for _, e := range part {
					if err := c.exec(sql, e.Module, int64(e.Space), []byte(e.Key), now); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("sweep state: %w", err)
			}
		}
		if len(found) < stateFound {
			return nil
		}
	}
}

func (s *Store) expiredState(ctx context.Context, now int64) (found []host.StateEntry, err error) {
	r, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer s.release(r)
	const sql = `SELECT module, space, key FROM state WHERE expires > 0 AND expires <= ? LIMIT ?`
	err = r.each(ctx, sql, list(now, int64(stateFound)), func(row []driver.Value) error {
		found = append(found, stateKey(row))
		return nil
	})
	return found, err
}

// stateKey reads the first three columns of a row.
func stateKey(row []driver.Value) (e host.StateEntry) {
	e.Module, _ = row[0].(string)
	space, _ := row[1].(int64)
	e.Space = byte(space)
	key, _ := row[2].([]byte)
	e.Key = string(key)
	return e
}

// changeState makes one transaction of what change does.
func (s *Store) changeState(ctx context.Context, change func(*conn) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	tx, err := s.Begin()
	if err != nil {
		return err
	}
	_, err = contained(tx, func() (struct{}, error) { return struct{}{}, change(tx.w.conn) })
	if err == nil {
		// Not Tx.Commit: there are no events to sum up, to count or to remember.
		err = tx.w.conn.exec(`COMMIT`)
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	tx.close()
	return nil
}
