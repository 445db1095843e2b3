package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"math"
	"runtime"
	"slices"
	"sync"

	"talon/host"
)

// merge says which rows under hashed keys are in table posting: those of events up to
// indexed, and for keys whose first byte is less than next those of events up to target.
// All others are in a [memtable]. It is a row of table merge, so that each snapshot has
// its own.
//
// From time to time all that is in memory becomes the target, and each commit then moves
// some keys, in their order.
type merge struct{ indexed, target, next int64 }

// through is the last event whose rows under the key are in the table.
func (m merge) through(key []byte) int64 {
	switch {
	case len(key) != keySize:
		return math.MaxInt64
	case int64(key[0]) < m.next:
		return m.target
	}
	return m.indexed
}

const mergeColumns = `(SELECT indexed FROM merge), (SELECT target FROM merge), (SELECT next FROM merge)`

func scanMerge(row []driver.Value) (m merge) {
	m.indexed, _ = row[0].(int64)
	m.target, _ = row[1].(int64)
	m.next, _ = row[2].(int64)
	return m
}

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

// readMemtable makes a memtable of the stored events after from, up to to.
func (s *Store) readMemtable(c *conn, from, to int64) (*memtable, error) {
	t := newMemtable()
	type stored struct {
		seq    int64
		packed []byte
		event  *host.Event // nil if it cannot be read, which Check reports
		rows   []posting
	}
	var part []stored
	flush := func() {
		// A start waits for this, so all processors parse.
		var wg sync.WaitGroup
		share := len(part)/runtime.GOMAXPROCS(0) + 1
		for some := range slices.Chunk(part, share) {
			wg.Go(func() {
				for i := range some {
					if e, err := parseRow(some[i].packed); err == nil {
						some[i].event, some[i].rows = e, s.keys.postings(nil, e, some[i].seq)
					}
				}
			})
		}
		wg.Wait()
		for _, e := range part {
			if e.event != nil {
				t.add(e.event, e.seq, e.rows)
			}
		}
		part = part[:0]
	}
	const sql = `SELECT seq, json FROM event WHERE seq > ? AND seq <= ? ORDER BY seq`
	err := c.each(context.Background(), sql, list(from, to), func(row []driver.Value) error {
		packed, _ := row[1].([]byte)
		if part = append(part, stored{seq: row[0].(int64), packed: packed}); len(part) == 4*fetchRows {
			flush()
		}
		return nil
	})
	flush()
	return t, err
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
	return tx.insertPostings(rows)
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

// recentOf returns the memtables that the snapshot reads beside the table.
func (r *reader) recentOf(m merge, t Total) ([]*memtable, error) {
	if r.store.writer != nil {
		return *r.store.recent.Load(), nil
	}
	// Another process writes. What it has in memory follows from what is stored, which
	// these numbers tell apart: only removals come without a new row number.
	s := r.store
	s.following.Lock()
	defer s.following.Unlock()
	if s.followed == nil || s.followedAt != t || s.followedFrom != m.indexed {
		table, err := s.readMemtable(r.conn, m.indexed, t.Seq)
		if err != nil {
			return nil, err
		}
		s.followed, s.followedAt, s.followedFrom = []*memtable{table}, t, m.indexed
	}
	return s.followed, nil
}

// recentSortKeys returns sort keys of a span that are not in the table, at most limit of those
// between above and under, both excluded, and whether there may be more behind the last
// that was looked at.
func (v *snapshot) recentSortKeys(key []byte, kind int64, above, under []byte, limit, width int) (packed []byte, last []byte, more bool, err error) {
	var unverified []int64
	for _, t := range v.recent {
		before := len(packed)
		packed, unverified = t.sortKeys(packed, key, kind, above, under, v.merged.through(key), v.seq, limit, unverified)
		more = more || (len(packed)-before)/width == limit
		if before > 0 && len(packed) > before {
			packed = mergeSortKeys(packed[:before], packed[before:], width)
		}
	}
	if n := limit * width; len(packed) > n {
		packed, more = packed[:n], true
	}
	if len(packed) > 0 {
		last = packed[len(packed)-width:]
	}
	if len(unverified) > 0 {
		packed, err = v.verified(packed, unverified, width)
	}
	return packed, last, more, err
}

// mergeSortKeys merges two lists of sort keys in order.
func mergeSortKeys(a, b []byte, width int) []byte {
	out := make([]byte, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[:width], b[:width]) <= 0 {
			out, a = append(out, a[:width]...), a[width:]
		} else {
			out, b = append(out, b[:width]...), b[width:]
		}
	}
	return append(append(out, a...), b...)
}

// verified leaves out the sort keys of events that the snapshot does not have.
func (v *snapshot) verified(packed []byte, unverified []int64, width int) ([]byte, error) {
	gone := make(map[int64]bool, len(unverified))
	for _, seq := range unverified {
		gone[seq] = true
	}
	const sql = `SELECT e.seq FROM json_each(?) r CROSS JOIN event e ON e.seq = r.value`
	err := v.each(context.Background(), sql, list(jsonInts(unverified)), func(row []driver.Value) error {
		delete(gone, row[0].(int64))
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := packed[:0:0]
	for ; len(packed) > 0; packed = packed[width:] {
		if !gone[parseSortKey(packed[:width]).seq] {
			out = append(out, packed[:width]...)
		}
	}
	return out, nil
}

// recentSpans calls yield for the spans of a plan that have rows in memory, and with how
// many at most.
func (v *snapshot) recentSpans(p *plan, yield func(key []byte, kind int64, rows int)) {
	for _, key := range p.keys {
		if len(key) != keySize {
			continue
		}
		kinds := map[int64]int{}
		for _, t := range v.recent {
			t.kinds(key, func(kind int64, rows int) { kinds[kind] += rows })
		}
		for kind, rows := range kinds {
			if p.kinds == nil || slices.Contains(p.kinds, kind) {
				yield(key, kind, rows)
			}
		}
	}
}

// recentHas reports whether a row is in memory and not in the table.
func (v *snapshot) recentHas(r posting) (bool, error) {
	sortKey := parseSortKey(r.sortKey)
	packed, _, _, err := v.recentSortKeys(r.key, r.kind, above(sortKey.at), under(sortKey.at), 1<<20, len(r.sortKey))
	for ; err == nil && len(packed) > 0; packed = packed[len(r.sortKey):] {
		if parseSortKey(packed[:len(r.sortKey)]) == sortKey {
			return true, nil
		}
	}
	return false, err
}
