package store

import "talon/host/contain"

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

// recover reloads what is kept in memory, or leaves that to the next Begin. REQUIRES: s.writing, and
// no transaction is open in the database.
func (s *Store) recover() {
	s.writer.stale = true
	if err := s.panics.Run(s.reload); err != nil {
		s.log.Error("read again from the database what is kept in memory", "err", err)
	}
}

// reload reads again from the database what the writer keeps in memory. REQUIRES: s.writing, and no
// transaction is open in the database.
func (s *Store) reload() error {
	w := s.writer
	w.pending, w.rows, w.packed, w.mergeDebt = nil, nil, nil, 0
	s.eventCache.Clear()
	if err := s.loadTotals(w.conn); err != nil {
		return err
	}
	w.seq = max(w.seq, s.total.Load().Seq) // a number is never given twice
	if err := s.loadMerge(w.conn); err != nil {
		return err
	}
	if err := w.loadHeld(); err != nil {
		return err
	}
	w.stale = false
	return nil
}
