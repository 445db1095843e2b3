package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"talon/host"
	"talon/host/store/semantics"
)

// writer is what changes the database. The holder of Store.writing owns it.
type writer struct {
	conn    *conn
	seq     int64     // the last given; goes on growing when a transaction is rolled back
	rows    []posting // reused by each event that is removed
	packed  []byte    // reused by each event that is put
	pending []posting // of the open transaction, not written yet
	tune    *tuning

	known   semantics.Known   // what Put and Hold reuse for each event
	version semantics.Version // that it refers to

	merge     merge // as in the open transaction
	mergeDebt int   // what is to be merged of it
	stale     bool  // what is kept in memory does not agree with the database: see [Store.reload]

	patience int64 // length of the log from which on the writer waits for readers

	// heldKinds has every kind that is in purgatory, and may have more: an event of
	// another kind has nothing to look for there.
	heldKinds map[host.Kind]struct{}
}

// ErrReadOnly says that the store was opened with OpenReadOnly.
var ErrReadOnly = semantics.ErrReadOnly

var errDone = errors.New("transaction has ended")

// Tx is the one open transaction. Nothing of it is visible to readers before
// Commit. It is for one goroutine, and ends with Commit or Rollback.
//
// After an error of any other method the transaction is broken: only Rollback is
// left. The store stays usable.
type Tx struct {
	s             *Store
	w             *writer
	total         Total
	work          int   // events put or removed
	removed       int64 // events removed
	expiryChanged bool  // table expiry changed
	holdChanged   bool  // when something in purgatory is due changed
	failed        error // the first error
	done          bool
	panicked      bool // what the writer keeps in memory may be half changed

	fresh        []text // what Commit makes visible
	mergedBefore merge  // as it was before
}

// Begin starts a transaction. It waits until the one before has ended.
func (s *Store) Begin() (*Tx, error) {
	if s.writer == nil {
		return nil, fmt.Errorf("begin transaction: %w", ErrReadOnly)
	}
	s.writing.Lock()
	if err := s.panics.Run(s.begin); err != nil {
		s.writing.Unlock()
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return &Tx{s: s, w: s.writer, total: *s.total.Load(), mergedBefore: s.writer.merge}, nil
}

// begin is Begin with the right to write. REQUIRES: s.writing.
func (s *Store) begin() error {
	select {
	case <-s.closed:
		return ErrClosed
	default:
	}
	if s.writer.stale {
		if err := s.reload(); err != nil {
			return err
		}
	}
	// Here rather than after a commit, whose events wait to be answered.
	if err := s.writer.maybeCheckpoint(s.checkpoint); err != nil {
		s.metrics.failures.Inc()
		s.log.Warn("copy log into database", "err", err)
	}
	return s.writer.conn.exec(`BEGIN IMMEDIATE`)
}

// Commit makes the transaction durable and visible. After an error nothing of it
// is stored, unless the disk failed in the very moment of writing: then it may
// show up after a restart, as a whole.
func (tx *Tx) Commit() error {
	if tx.done {
		return fmt.Errorf("commit: %w", errDone)
	}
	if tx.failed != nil {
		return errors.Join(fmt.Errorf("commit after a failure: %w", tx.failed), tx.Rollback())
	}
	began := time.Now()
	due, err := contained(tx, tx.seal)
	if err == nil {
		err = tx.w.conn.exec(`COMMIT`)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), tx.Rollback())
	}
	defer tx.close()
	// What is committed is committed: a panic from here on is no error of the caller's.
	_, err = contained(tx, func() (struct{}, error) {
		tx.record(due)
		return struct{}{}, nil
	})
	if err != nil {
		tx.s.recover()
	}
	tx.s.removedTotal.Add(tx.removed)
	tx.s.metrics.Commit.Observe(time.Since(began).Seconds())
	tx.s.metrics.Batch.Observe(float64(tx.work))
	return nil
}

// record makes what is kept in memory that of the commit.
func (tx *Tx) record(due nextDue) {
	tx.s.total.Store(&tx.total)
	tx.s.forgetMerged(tx.w.merge.indexed)
	tx.s.expiry.Store(due.expiry)
	tx.s.heldDue.Store(due.held)
	for _, t := range tx.fresh {
		tx.s.eventCache.Add(t.seq, t.json)
	}
}

// nextDue says when the first event expires, and when something in purgatory is due.
type nextDue struct{ expiry, held int64 }

// seal writes what sums the transaction up.
func (tx *Tx) seal() (due nextDue, err error) {
	if err := tx.index(); err != nil {
		return due, err
	}
	if err := tx.mergeRows(); err != nil {
		return due, err
	}
	if tx.work > 0 {
		tx.total.Seq = tx.w.seq
		const sql = `UPDATE total SET seq = ?, events = ?, bytes = ?, held = ?, held_bytes = ?`
		t := tx.total
		if err := tx.w.conn.exec(sql, t.Seq, t.Events, t.Bytes, t.Held, t.HeldBytes); err != nil {
			return due, err
		}
	}
	due = nextDue{tx.s.expiry.Load(), tx.s.heldDue.Load()}
	if tx.expiryChanged {
		due.expiry, err = tx.w.conn.nextExpiry()
	}
	if err == nil && tx.holdChanged {
		due.held, err = tx.w.conn.nextHeld()
	}
	return due, err
}

// Rollback undoes the transaction. After Commit it does nothing.
func (tx *Tx) Rollback() error {
	if tx.done {
		return nil
	}
	defer tx.close()
	_, _ = contained(tx, func() (struct{}, error) {
		tx.s.forgetPut()
		return struct{}{}, nil
	})
	tx.w.merge = tx.mergedBefore
	if err := tx.w.conn.abandon(); err != nil {
		tx.w.stale = tx.w.stale || tx.panicked
		return fmt.Errorf("roll back: %w", err)
	}
	if tx.panicked {
		tx.s.recover()
	}
	return nil
}

func (tx *Tx) close() {
	tx.w.pending = tx.w.pending[:0]
	tx.done = true
	tx.s.writing.Unlock()
}

// ready returns why the transaction cannot go on.
func (tx *Tx) ready() error {
	if tx.done {
		return errDone
	}
	return tx.failed
}

// Sweep removes events that have expired by now (NIP-40), at most limit, and
// returns them.
func (tx *Tx) Sweep(now int64, limit int) (removed []*host.Event, err error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	removed, err = contained(tx, func() ([]*host.Event, error) { return tx.sweep(now, limit) })
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return removed, nil
}

// The log is copied back into the database in two parts. The bulk is copied by a
// goroutine of its own, beside the writer. That never reaches the end while
// events keep coming, and only a log that has been copied whole starts over; so
// when little is left the writer copies the rest between two commits.
//
// The longer a log may grow, the more often a page changes before it is copied
// once. A put into 100,000 events cost 125 µs of CPU with 1,000 pages, SQLite's
// own default, 105 with 4,000 and 101 with 16,000.

// checkpointer copies the log on a connection of its own.
type checkpointer struct {
	conn    *conn
	log     *slog.Logger
	metrics *measures
	copying sync.Mutex // held by who copies: SQLite would turn a second one away
	wake    chan struct{}
	done    chan struct{}
}

func startCheckpointer(path string, log *slog.Logger, m *measures) (*checkpointer, error) {
	c, err := dial(path, "rw", "busy_timeout = 5000", "synchronous = FULL", "wal_autocheckpoint = 0")
	if err != nil {
		return nil, err
	}
	cp := &checkpointer{conn: c, log: log, metrics: m, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go cp.run()
	return cp, nil
}

func (cp *checkpointer) run() {
	defer close(cp.done)
	for range cp.wake {
		cp.copying.Lock()
		err := cp.conn.checkpoint("PASSIVE")
		cp.copying.Unlock()
		if err != nil {
			cp.metrics.failures.Inc()
			cp.log.Error("copy log into database", "err", err)
		}
	}
}

func (cp *checkpointer) notify() {
	select {
	case cp.wake <- struct{}{}:
	default:
	}
}

func (cp *checkpointer) stop() error {
	close(cp.wake)
	<-cp.done
	return cp.conn.close()
}

// maybeCheckpoint keeps the log bounded. REQUIRES: no transaction is open on w. Its errors
// are not the writer's: what is committed is committed.
func (w *writer) maybeCheckpoint(cp *checkpointer) error {
	row, err := w.conn.first(`PRAGMA wal_checkpoint(NOOP)`)
	if err != nil || row == nil {
		return err
	}
	length, _ := row[1].(int64)
	copied, _ := row[2].(int64)
	if length < w.tune.maxWAL {
		w.patience = w.tune.maxWAL
	}
	switch left := length - copied; {
	case length > w.patience:
		// A reader that takes minutes, such as a check by another process, must not
		// make each commit wait.
		w.patience = length + w.tune.maxWAL
		cp.copying.Lock()
		defer cp.copying.Unlock()
		return w.conn.checkpoint("RESTART")
	case length <= w.tune.startWAL || left == 0:
	case left > w.tune.finishWAL:
		cp.notify()
	case cp.copying.TryLock():
		defer cp.copying.Unlock()
		return w.conn.checkpoint("PASSIVE")
	}
	return nil
}

var errCheckpointBusy = errors.New("readers hold the log")

func (c *conn) checkpoint(mode string) error {
	busy, err := c.number(context.Background(), fmt.Sprintf(`PRAGMA wal_checkpoint(%s)`, mode))
	if err == nil && busy != 0 && mode != "PASSIVE" {
		err = errCheckpointBusy
	}
	return err
}
