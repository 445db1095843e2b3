package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/store/metrics"
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
func (s *Store) view(ctx context.Context, op metrics.Operation, now int64, read func(*snapshot) error) error {
	return s.use(ctx, op, func(r *reader) error { return r.snapshot(now, read) })
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

// tuning says how much is read at a time. Answers do not depend on it, so tests
// take the smallest numbers and meet every border.
type tuning struct {
	// probes are how far candidates are counted to choose between several keys:
	// further only if there are more of all of them.
	probes [2]int

	// For more than collectSpans it is tried first whether all candidates are few: a page or
	// two, and collectSpan for each span, or collectFull where whole events are read.
	collectSpans, collectSpan, collectFull int

	// wholeKey is how many sort keys of a key are read without regard to kinds, before
	// they are looked for kind by kind; wholeKeyFull where whole events are read.
	wholeKey, wholeKeyFull int

	// Places that one statement reads: fullChunk at most where whole events are
	// read for them. Between chunks the context is looked at.
	minChunk, maxChunk, fullChunk int

	// mergeFrom is how many events have their rows in memory before these are merged into
	// the table, and mergeBytes how much memory the rows take at most: an event may have
	// thousands of tags. 0 bytes is no bound.
	mergeFrom  int
	mergeBytes int64

	// Pages of the log, 4 KiB each. From startWAL on it is copied, beside the
	// writer while more than finishWAL are left, which is a large commit or two.
	// Once it is longer than maxWAL the writer waits for readers that need it.
	startWAL, finishWAL, maxWAL int64
}

// density is how many sort keys the spans of filters of one kind had lately: those of a tag,
// or of authors, with kinds or without. It saves trying whether candidates are few where
// they have been many. Answers do not depend on it.
type density struct {
	perSpan atomic.Int64 // sort keys for 16 spans
	asked   atomic.Int64
}

// many reports whether that number of spans probably has more than most sort keys. Every
// 16th question is answered no, so that it is tried again.
func (d *density) many(spans, limit int) bool {
	return d.perSpan.Load()*int64(spans)/16 > 2*int64(limit) && d.asked.Add(1)%16 != 0
}

// met notes how many sort keys, at least, some spans had.
func (d *density) met(places, spans int) { d.perSpan.Store(int64(16 * places / max(spans, 1))) }

var defaultTuning = tuning{
	probes:       [2]int{1000, 20_000},
	collectSpans: 8,
	collectSpan:  4,
	collectFull:  200,
	wholeKey:     96,
	wholeKeyFull: 8,
	minChunk:     4,
	maxChunk:     4096,
	fullChunk:    128,
	mergeFrom:    16_384,
	mergeBytes:   32 << 20,
	startWAL:     8_000,
	finishWAL:    4_000,
	maxWAL:       64_000,
}
