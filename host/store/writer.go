package store

import (
	"errors"
	"fmt"
	"time"

	"talon/host"
)

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
		w.checkpointLimit = w.tune.maxWAL
	}
	switch left := length - copied; {
	case length > w.checkpointLimit && cp.readers.Load() > 0:
		// A backup ends by itself. The log is copied as far as it has read.
		if left > w.tune.finishWAL {
			cp.notify()
		}
	case length > w.checkpointLimit:
		// A reader that takes minutes, such as a check by another process, must not
		// make each commit wait.
		w.checkpointLimit = length + w.tune.maxWAL
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
	// The commit is done: a panic from here on is no error of the caller's.
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
	tx.s.usage.record(&tx.w.usage)
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
	if err := tx.writeUsage(); err != nil {
		return due, err
	}
	if tx.work > 0 {
		tx.total.Seq = tx.w.seq
		const sql = `UPDATE total SET seq = ?, events = ?, bytes = ?, held = ?, held_bytes = ?, hidden = ?, hidden_bytes = ?, withheld = ?, vanished = ?`
		t := tx.total
		if err := tx.w.conn.exec(sql, t.Seq, t.Events, t.Bytes, t.Held, t.HeldBytes, t.Hidden, t.HiddenBytes, t.Withheld, t.Vanished); err != nil {
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
