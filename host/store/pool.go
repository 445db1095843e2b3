package store

import (
	"context"
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

	turn *readTurn // whose it is, nil while it is nobody's

	further bool      // it was opened because reads waited, and closes when it is unused
	unused  time.Time // since when, if it is further; guarded by the lock of the readQueue
}

// acquire waits until it is the caller's turn to read: that of the account of
// [host.ShareOf], or else one of its own. It must be given back with release.
func (s *Store) acquire(ctx context.Context) (*reader, error) {
	select {
	case <-s.closed:
		return nil, ErrClosed
	default:
	}
	q := s.queue
	t, ready, class := q.queue(host.ShareOf(ctx))
	if ready != nil {
		if err := s.await(ctx, ready, class); err != nil {
			q.end(t)
			return nil, err
		}
	}
	return s.takeConnection(t)
}

// takeConnection returns the connection of a read that has its turn, and opens one if need be.
func (s *Store) takeConnection(t *readTurn) (*reader, error) {
	if t.dial {
		c, err := s.dialReader()
		if err != nil {
			s.queue.end(t)
			return nil, fmt.Errorf("open a reader: %w", err)
		}
		t.dial = false
		t.reader = s.newReader(c)
		t.reader.further = true
	}
	t.reader.turn, t.reader.work = t, 0
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
	t.work = r.work
	r.turn = nil
	s.queue.end(t)
}

func (s *Store) newReader(c *conn) *reader {
	return &reader{conn: c, store: s, keys: &s.keys, tune: s.tune}
}

// closeReaders waits for those in use.
func (s *Store) closeReaders() error {
	var errs []error
	for _, r := range s.queue.shut() {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
