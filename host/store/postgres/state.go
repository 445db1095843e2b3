package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
)

// Saves of state take turns, each with a number. A process that has read the saves up to one
// number finds later ones by it. A forgotten entry remains as a row without a value, for as
// long as a process that still has the entry may be away.
const (
	keepForgotten = 24 * 60 * 60 // seconds

	// stateClass is the upper half of the keys of the locks under which saves take turns.
	stateClass = turnClass + 1
)

// spaceOfBuckets is that of package host/plugin/state.
const spaceOfBuckets = 1

// savedState is what a notification says of a save.
const savedState = "state"

// StateChanged receives after any process has saved state, and now and then.
func (s *Store) StateChanged() <-chan struct{} { return s.saved }

// Writers returns how many processes write to the database, as far as is known.
func (s *Store) Writers() int { return int(s.others.Load()) + 1 }

// LoadState yields the state of plugins, including expired entries. Its values are the
// caller's. The error of yield ends it and is returned as it is. yield must not wait.
func (s *Store) LoadState(ctx context.Context, yield func(host.StateEntry) error) error {
	_, err := s.readState(ctx, 0, func(e host.StateEntry) error {
		if e.Value == nil {
			return nil
		}
		return yield(e)
	})
	return err
}

// ReadState yields, as LoadState does, the entries of saves after a numbered one, and returns
// the number of the last save. A forgotten entry has no value. 0 is before the first save. So
// is any number after the server was away, which may have lost the last saves.
func (s *Store) ReadState(ctx context.Context, after int64, yield func(host.StateEntry) error) (last int64, err error) {
	again := s.reread.Swap(false)
	if again {
		after = 0
	}
	if last, err = s.readState(ctx, after, yield); err != nil && again {
		s.reread.Store(true)
	}
	return last, err
}

func (s *Store) readState(ctx context.Context, after int64, yield func(host.StateEntry) error) (last int64, err error) {
	last = after
	if after == 0 {
		after = -1 // those of an earlier version of the schema have number 0
	}
	err = s.each(ctx, metrics.State, `SELECT module, space, key, value, expires, n FROM state WHERE n > $1`, []any{after}, func(rows pgx.Rows) error {
		var e host.StateEntry
		var module, key []byte
		var space int16
		var n int64
		if err := rows.Scan(&module, &space, &key, &e.Value, &e.Expires, &n); err != nil {
			return err
		}
		last = max(last, n)
		e.Module, e.Space, e.Key = string(module), byte(space), string(key)
		return yield(e)
	})
	return last, err
}

// SaveState writes the entries, of which a later one of the same key wins, and removes
// those with no value, in one transaction: all or none, and durable when it returns nil.
func (s *Store) SaveState(ctx context.Context, entries []host.StateEntry) error {
	return s.MergeState(ctx, entries, nil)
}

// MergeState is SaveState, and calls merge before for each entry that is Merged, with the
// entry that is stored under its key. After a lost connection it calls merge again. It writes
// nothing twice.
func (s *Store) MergeState(ctx context.Context, entries []host.StateEntry, merge func(i int, stored host.StateEntry)) error {
	number := s.saves.Add(1)
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, s.turnKey+(stateClass-turnClass)<<32); err != nil {
			return err
		}
		var saved int64
		err := tx.QueryRow(ctx, `SELECT saves FROM writer WHERE id = $1`, s.writer.Load()).Scan(&saved)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) || saved == number {
			return err
		}
		if merge != nil {
			if err := mergeState(ctx, tx, entries, merge); err != nil {
				return err
			}
		}
		var b pgx.Batch
		var r stateRows
		last := make(map[stateKey]int, len(entries))
		for i := range entries {
			last[keyOfState(&entries[i])] = i
		}
		for i := range entries {
			if e := &entries[i]; last[keyOfState(e)] == i {
				r.add(e)
			}
		}
		b.Queue(`
			INSERT INTO state (module, space, hash, key, expires, value, n)
			SELECT x.module, x.space, x.hash, x.key,
				CASE WHEN x.value IS NULL THEN extract(epoch FROM clock_timestamp())::bigint + $7 ELSE x.expires END, x.value, (SELECT nextval('state_save'))
			FROM unnest($1::bytea[], $2::smallint[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bytea[]) x (module, space, hash, key, expires, value)
			ON CONFLICT (module, space, hash) DO UPDATE SET expires = excluded.expires, value = excluded.value, n = excluded.n`,
			r.module, r.space, r.hash, r.key, r.expires, r.value, keepForgotten)
		b.Queue(`UPDATE writer SET saves = $1 WHERE id = $2`, number, s.writer.Load())
		if merge != nil && !slices.ContainsFunc(entries, func(e host.StateEntry) bool { return e.Space != spaceOfBuckets }) {
			// Nobody waits for buckets, and the last ones may be lost in a crash of the server.
			b.Queue(`SET LOCAL synchronous_commit = off`)
		}
		b.Queue(`SELECT pg_notify($1, $2)`, s.channel(), savedState)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}

func mergeState(ctx context.Context, tx pgx.Tx, entries []host.StateEntry, merge func(i int, stored host.StateEntry)) error {
	var r stateRows
	at := make(map[stateKey]int)
	for i := range entries {
		if e := &entries[i]; e.Merged {
			at[keyOfState(e)] = i
			r.add(e)
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT s.module, s.space, s.key, s.value, s.expires
		FROM unnest($1::bytea[], $2::smallint[], $3::bytea[]) x (module, space, hash)
		JOIN state s ON s.module = x.module AND s.space = x.space AND s.hash = x.hash`, r.module, r.space, r.hash)
	if err != nil {
		return err
	}
	stored, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e host.StateEntry, err error) {
		var module, key []byte
		var space int16
		err = row.Scan(&module, &space, &key, &e.Value, &e.Expires)
		e.Module, e.Space, e.Key = string(module), byte(space), string(key)
		return e, err
	})
	if err != nil {
		return err
	}
	for _, e := range stored {
		key := keyOfState(&e)
		merge(at[key], e)
		delete(at, key)
	}
	for _, i := range at {
		merge(i, host.StateEntry{})
	}
	return nil
}

type stateKey struct {
	module string
	space  byte
	key    string
}

func keyOfState(e *host.StateEntry) stateKey { return stateKey{e.Module, e.Space, e.Key} }

// stateRows are rows of table state, a slice for each column.
type stateRows struct {
	module, hash, key, value [][]byte
	space                    []int16
	expires                  []int64
}

func (r *stateRows) add(e *host.StateEntry) {
	r.module, r.hash, r.key = append(r.module, []byte(e.Module)), append(r.hash, hash(e.Key)), append(r.key, []byte(e.Key))
	r.space, r.expires, r.value = append(r.space, int16(e.Space)), append(r.expires, e.Expires), append(r.value, e.Value)
}

// SweepState removes the entries that have expired by now, a few at a time: it never holds
// up a commit for long.
func (s *Store) SweepState(ctx context.Context, now int64) error {
	const maximum = 5000
	for {
		var n int64
		err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `
				DELETE FROM state WHERE ctid = ANY(ARRAY(SELECT ctid FROM state WHERE expires > 0 AND expires <= $1 LIMIT $2))`, now, maximum)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("sweep state: %w", err)
		}
		if n < maximum {
			return nil
		}
	}
}
