package store

import (
	"errors"
	"fmt"
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

	checkpointLimit int64 // length of the log from which on the writer waits for readers

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
	indexed       int64 // bytes that the rows of put events take in a memtable, at most
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
