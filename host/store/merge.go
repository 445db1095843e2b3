package store

import "slices"

// loadMerge reads how far the merge is, and makes the memtable of what it has not merged.
func (s *Store) loadMerge(c *conn) error {
	row, err := c.first(`SELECT ` + mergeColumns)
	if err != nil {
		return err
	}
	s.writer.merge = scanMerge(row)
	t, err := s.readMemtable(c, s.writer.merge.indexed, s.total.Load().Seq)
	if err != nil {
		return err
	}
	s.recent.Store(&[]*memtable{t})
	s.accountMemtables()
	return nil
}

// accountMemtables counts the memtables as a part of the cache of texts.
func (s *Store) accountMemtables() {
	n := int64(0)
	for _, t := range *s.recent.Load() {
		n += t.bytes()
	}
	s.eventCache.Lend(n)
}

// active is the memtable that new rows go to. REQUIRES: s.writing.
func (s *Store) active() *memtable {
	all := *s.recent.Load()
	return all[len(all)-1]
}

// mergeRows moves rows of the memtables to the table: a share that follows from the number and
// size of the events of the transaction, so that a merge ends before the next one is due.
func (tx *Tx) mergeRows() error {
	m, was, tune := &tx.w.merge, tx.w.merge, tx.w.tune
	tx.s.accountMemtables()
	work, full := tx.work, false
	if tune.mergeBytes > 0 {
		// As many events of the usual size as take that much.
		work += int(tx.indexed * int64(tune.mergeFrom) / tune.mergeBytes)
		full = tx.s.active().bytes() >= tune.mergeBytes
	}
	if m.target == m.indexed && (full || tx.s.active().len() >= tune.mergeFrom) {
		// The rows of this transaction are in the memtable already.
		m.target = tx.w.seq
		all := append(slices.Clone(*tx.s.recent.Load()), newMemtable())
		tx.s.recent.Store(&all)
		tx.w.mergeDebt = 0
	}
	if m.target == m.indexed {
		return nil
	}
	for tx.w.mergeDebt += 2 * memShards * work; tx.w.mergeDebt >= tune.mergeFrom && m.next < memShards; m.next++ {
		tx.w.mergeDebt -= tune.mergeFrom
		if err := tx.mergeShard(m.next); err != nil {
			return err
		}
	}
	if m.next == memShards {
		m.indexed, m.next = m.target, 0
	}
	if *m == was {
		return nil
	}
	return tx.w.conn.exec(`UPDATE merge SET indexed = ?, target = ?, next = ?`, m.indexed, m.target, m.next)
}

func (tx *Tx) mergeShard(first int64) error {
	var rows []posting
	gone := map[int64]bool{}
	for _, t := range *tx.s.recent.Load() {
		rows = t.shard(rows, gone, first, tx.w.merge.indexed, tx.w.merge.target)
	}
	for seq := range gone {
		row, err := tx.w.conn.first(`SELECT 1 FROM event WHERE seq = ?`, seq)
		if err != nil {
			return err
		}
		gone[seq] = row == nil
	}
	rows = slices.DeleteFunc(rows, func(r posting) bool { return gone[parseSortKey(r.sortKey).seq] })
	slices.SortFunc(rows, posting.compare)
	return tx.w.conn.insertPostings(rows)
}

// forgetMerged lets go of memtables of which every snapshot to come has all rows in the
// table. Those that there are have the list that they began with.
func (s *Store) forgetMerged(indexed int64) {
	all := *s.recent.Load()
	n := 0
	for n < len(all)-1 && all[n].lastSeq() <= indexed {
		n++
	}
	if n > 0 {
		rest := slices.Clone(all[n:])
		s.recent.Store(&rest)
	}
}

// forgetPut takes back what a transaction has added to memtables.
func (s *Store) forgetPut() {
	for _, t := range *s.recent.Load() {
		t.truncate(s.total.Load().Seq)
	}
}
