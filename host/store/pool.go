package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"talon/host"
	"talon/host/store/semantics"
)

// ErrClosed says that the store has been closed.
var ErrClosed = semantics.ErrClosed

// reader is a reading connection.
type reader struct {
	*conn
	store *Store
	keys  *keyring
	tune  *tuning

	turn *turn // whose it is, nil while it is nobody's
}

// acquire waits until it is the caller's turn to read: that of the account of
// [host.ShareOf], or else one of its own. It must be given back with release.
func (s *Store) acquire(ctx context.Context) (*reader, error) {
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	q := s.turns
	q.mu.Lock()
	t := q.enter(host.ShareOf(ctx))
	if !t.has {
		t.ready = make(chan struct{})
	}
	ready, class := t.ready, t.class
	q.mu.Unlock()
	if ready != nil {
		if err := s.await(ctx, ready, class); err != nil {
			q.mu.Lock()
			q.leave(t)
			q.mu.Unlock()
			return nil, err
		}
	}
	if t.dial {
		c, err := s.dialReader()
		if err != nil {
			q.mu.Lock()
			q.leave(t)
			q.mu.Unlock()
			return nil, fmt.Errorf("open a reader: %w", err)
		}
		t.dial = false
		t.reader = s.newReader(c)
	}
	t.reader.turn = t
	return t.reader, nil
}

// await waits for a turn.
func (s *Store) await(ctx context.Context, ready <-chan struct{}, class readClass) error {
	began := time.Now()
	s.metrics.waiting.Inc()
	defer func() {
		s.metrics.waiting.Dec()
		s.metrics.waited[class].Observe(time.Since(began).Seconds())
	}()
	select {
	case <-ready:
		return nil
	case <-s.closed:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for a reader: %w", context.Cause(ctx))
	}
}

func (s *Store) release(r *reader) {
	t := r.turn
	r.turn = nil
	s.turns.mu.Lock()
	s.turns.leave(t)
	s.turns.mu.Unlock()
}

func (s *Store) newReader(c *conn) *reader {
	return &reader{conn: c, store: s, keys: &s.keys, tune: s.tune}
}

// closeReaders waits for those in use.
func (s *Store) closeReaders() error {
	var errs []error
	for _, r := range s.turns.shut() {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// snapshot is one state of the database, seen by all statements of a reader
// until it ends.
type snapshot struct {
	*reader
	seq     int64              // every event with a Seq up to this is in it
	now     int64              // the caller's
	expired map[int64]struct{} // rows that are in it but must not be seen
	merged  merge
	recent  []*memtable
}

// view calls read with a snapshot as of now. The time it takes is recorded
// under op.
func (s *Store) view(ctx context.Context, op operation, now int64, read func(*snapshot) error) error {
	return s.use(ctx, op, func(r *reader) error { return r.snapshot(now, read) })
}

// use calls read with a reader. The time it takes is recorded under op.
func (s *Store) use(ctx context.Context, op operation, read func(*reader) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s events: %w", op, context.Cause(ctx))
	}
	r, err := s.acquire(ctx)
	if err != nil {
		return fmt.Errorf("%s events: %w", op, err)
	}
	defer s.release(r)
	began := time.Now()
	defer func() { s.metrics.queries[op].Observe(time.Since(began).Seconds()) }()
	if err := read(r); err != nil {
		return fmt.Errorf("%s events: %w", op, err)
	}
	return nil
}

// pause lets other reads go first when this one has had its slice and they have used less.
// A read that may be long calls it between its pieces.
func (r *reader) pause(ctx context.Context) error {
	q := r.store.turns
	t := r.turn
	if q.now().Sub(t.began) < q.slice {
		return nil
	}
	q.mu.Lock()
	lost := q.pause(t)
	if lost {
		t.ready = make(chan struct{})
	}
	ready := t.ready
	q.mu.Unlock()
	if !lost {
		return nil
	}
	r.store.metrics.paused.Inc()
	return r.store.await(ctx, ready, pausedRead)
}

func (r *reader) snapshot(now int64, read func(*snapshot) error) error {
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
	row, err := r.first(`SELECT seq, (SELECT min(at) FROM expiry), events, bytes, ` + mergeColumns + ` FROM total`)
	if err != nil {
		return err
	}
	if row == nil {
		return errors.New("table total is empty")
	}
	v := &snapshot{reader: r, now: now}
	v.seq, _ = row[0].(int64)
	v.merged = scanMerge(row[4:])
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
