package store

import (
	"errors"
	"fmt"
	"time"

	"talon/host"
	"talon/host/contain"
	"talon/host/store/semantics"
)

// ErrReadOnly says that the store was opened with OpenReadOnly.
var ErrReadOnly = semantics.ErrReadOnly

// ErrEphemeral says that an event given to Put is ephemeral and is not stored.
var ErrEphemeral = semantics.ErrEphemeral

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

	fresh        []text     // what Commit makes visible
	mergedBefore mergePoint // as it was before
}

// rows are the stored and held events of an open transaction, as packages semantics and
// purgatory read and write them. The rules are there.
type rows struct{ tx *Tx }

// contained runs a part of a transaction. A panic there becomes an error, and the transaction is
// broken as after any other.
//
// A panic may leave what the writer keeps in memory half changed: memtables, totals, the cache of
// texts. All of it follows from the database, so it is read again from there before the next
// transaction begins. Rows that the transaction has written itself are rolled back.
func contained[T any](tx *Tx, f func() (T, error)) (out T, err error) {
	err = tx.s.panics.Run(func() (err error) {
		out, err = f()
		return err
	})
	tx.panicked = tx.panicked || contain.Panicked(err)
	return out, err
}

// one runs a function that puts or holds an event.
func (tx *Tx) one(what string, e *host.Event, f func() (host.Outcome, error)) (host.Outcome, error) {
	if err := tx.ready(); err != nil {
		return host.Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	if e.Kind.Class() == host.Ephemeral {
		return host.Outcome{}, fmt.Errorf("%s: %w", what, ErrEphemeral)
	}
	began := time.Now()
	out, err := contained(tx, f)
	if err != nil {
		tx.failed = err
		tx.s.metrics.PutErrors.Inc()
		return host.Outcome{}, fmt.Errorf("%s %s: %w", what, e.ID, err)
	}
	tx.s.metrics.Put[out.Code].Observe(time.Since(began).Seconds())
	return out, nil
}

// ready returns why the transaction cannot go on.
func (tx *Tx) ready() error {
	if tx.done {
		return errDone
	}
	return tx.failed
}

func (tx *Tx) close() {
	tx.w.pending = tx.w.pending[:0]
	tx.w.usage.clear(tx.s.usage.point)
	tx.done = true
	tx.s.writing.Unlock()
}
