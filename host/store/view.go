package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"talon/host/store/metrics"
)

// snapshot is one state of the database, seen by all statements of a reader
// until it ends.
type snapshot struct {
	*reader
	seq      int64              // every event with a Seq up to this is in it
	now      int64              // the caller's
	expired  map[int64]struct{} // rows that are in it but must not be seen
	merged   mergePoint
	withheld int64 // events that are not for everybody
	recent   []*memtable
}

// view calls read with a snapshot as of now. The time it takes is recorded
// under op.
func (s *Store) view(ctx context.Context, op metrics.Operation, now int64, read func(*snapshot) error) error {
	return s.use(ctx, op, func(r *reader) error { return r.beginSnapshot(now, read) })
}

// use calls read with a reader. The time it takes is recorded under op.
func (s *Store) use(ctx context.Context, op metrics.Operation, read func(*reader) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s events: %w", op, context.Cause(ctx))
	}
	r, err := s.acquire(ctx)
	if err != nil {
		return fmt.Errorf("%s events: %w", op, err)
	}
	defer s.release(r)
	began := time.Now()
	defer func() { s.metrics.Queries[op].Observe(time.Since(began).Seconds()) }()
	if err := read(r); err != nil {
		return fmt.Errorf("%s events: %w", op, err)
	}
	return nil
}

// beginSnapshot calls read with the state of the database at one moment, and with the memtables that
// belong to it.
func (r *reader) beginSnapshot(now int64, read func(*snapshot) error) error {
	for {
		before := r.store.recent.Load()
		err := r.snapshotWith(now, before, read)
		if err != errOtherMemtables {
			return err
		}
	}
}

// errOtherMemtables says that there were others before a snapshot began and after.
var errOtherMemtables = errors.New("other memtables")

// snapshotWith calls read with a snapshot, if before are the memtables all the time that it
// takes to begin: then they have what it has not in the table.
func (r *reader) snapshotWith(now int64, before *[]*memtable, read func(*snapshot) error) (err error) {
	if err := r.exec(`BEGIN`); err != nil {
		return err
	}
	defer func() {
		if cerr := r.exec(`COMMIT`); cerr != nil {
			err = errors.Join(err, cerr, r.abandon())
		}
	}()
	row, err := r.first(`SELECT seq, (SELECT min(at) FROM expiry), events, bytes, withheld, ` + mergeColumns + ` FROM total`)
	if err != nil {
		return err
	}
	if row == nil {
		return errors.New("table total is empty")
	}
	v := &snapshot{reader: r, now: now}
	v.seq, _ = row[0].(int64)
	v.withheld, _ = row[4].(int64)
	v.merged = scanMerge(row[5:])
	total := Total{Seq: v.seq}
	total.Events, _ = row[2].(int64)
	total.Bytes, _ = row[3].(int64)
	earliest, dated := row[1].(int64)
	if v.recent, err = r.recentOf(v.merged, total); err != nil {
		return err
	}
	if r.store.recent.Load() != before {
		return errOtherMemtables
	}
	if dated && earliest <= now {
		if v.expired, err = r.expired(now); err != nil {
			return err
		}
	}
	return read(v)
}

// expired returns the rows that wait for a sweep. Sweeps are frequent, so there
// are few.
func (r *reader) expired(now int64) (map[int64]struct{}, error) {
	rows := make(map[int64]struct{})
	err := r.each(context.Background(), `SELECT event FROM expiry WHERE at <= ?`, list(now), func(row []driver.Value) error {
		rows[row[0].(int64)] = struct{}{}
		return nil
	})
	return rows, err
}

// recentOf returns the memtables that the snapshot reads in addition to the table.
func (r *reader) recentOf(m mergePoint, t Total) ([]*memtable, error) {
	if r.store.writer != nil {
		return *r.store.recent.Load(), nil
	}
	// Another process writes. The rows in its memory follow from the stored events. These
	// numbers tell two states of them apart: only removals come without a new row number.
	s := r.store
	s.following.Lock()
	defer s.following.Unlock()
	if s.followed == nil || s.followedAt != t || s.followedFrom != m.indexed {
		table, err := s.readMemtable(r.conn, m.indexed, t.Seq)
		if err != nil {
			return nil, err
		}
		s.followed, s.followedAt, s.followedFrom = []*memtable{table}, t, m.indexed
	}
	return s.followed, nil
}

// pause lets other reads go first when this one has had its slice and they have used less.
// A read that may be long calls it between its pieces.
func (r *reader) pause(ctx context.Context) error {
	q := r.store.queue
	t := r.turn
	if t.work = r.work; q.used(t) < q.slice {
		return nil
	}
	ready := q.letOthers(t)
	if ready == nil {
		return nil
	}
	r.store.metrics.paused.Inc()
	return r.store.await(ctx, ready, pausedRead)
}
