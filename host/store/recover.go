package store

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
	if err := s.loadUsage(w.conn); err != nil {
		return err
	}
	if err := w.loadHeld(); err != nil {
		return err
	}
	w.stale = false
	return nil
}
