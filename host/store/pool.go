package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"
)

// ErrClosed says that the store has been closed.
var ErrClosed = errors.New("store is closed")

// reader is a reading connection.
type reader struct {
	*conn
	keys *keyring
	tune *tuning
}

// acquire waits for a reader. It must be given back with release.
func (s *Store) acquire(ctx context.Context) (*reader, error) {
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	select {
	case r := <-s.readers:
		return r, nil
	default:
	}
	began := time.Now()
	s.metrics.waiting.Inc()
	defer func() {
		s.metrics.waiting.Dec()
		s.metrics.waited.Observe(time.Since(began).Seconds())
	}()
	select {
	case r := <-s.readers:
		return r, nil
	case <-s.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a reader: %w", context.Cause(ctx))
	}
}

func (s *Store) release(r *reader) { s.readers <- r }

// closeReaders waits for those in use.
func (s *Store) closeReaders() error {
	var errs []error
	for ; s.opened > 0; s.opened-- {
		r := <-s.readers
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

func (r *reader) snapshot(now int64, read func(*snapshot) error) (err error) {
	if err := r.exec(`BEGIN`); err != nil {
		return err
	}
	defer func() {
		if cerr := r.exec(`COMMIT`); cerr != nil {
			err = errors.Join(err, cerr, r.abandon())
		}
	}()
	row, err := r.first(`SELECT seq, (SELECT min(at) FROM expiry) FROM total`)
	if err != nil {
		return err
	}
	if row == nil {
		return errors.New("table total is empty")
	}
	v := &snapshot{reader: r, now: now}
	v.seq, _ = row[0].(int64)
	if at, ok := row[1].(int64); ok && at <= now {
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
