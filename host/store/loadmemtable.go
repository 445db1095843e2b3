package store

import (
	"context"
	"database/sql/driver"
	"runtime"
	"slices"
	"sync"

	"talon/host"
)

// readMemtable makes a memtable of the stored events after from, up to to.
func (s *Store) readMemtable(c *conn, from, to int64) (*memtable, error) {
	t := newMemtable()
	type stored struct {
		seq    int64
		packed []byte
		who    driver.Value
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
					if e, err := parseStored(some[i].packed, some[i].who); err == nil {
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
	const sql = `SELECT seq, json, audience FROM event WHERE seq > ? AND seq <= ? ORDER BY seq`
	err := c.each(context.Background(), sql, list(from, to), func(row []driver.Value) error {
		packed, _ := row[1].([]byte)
		if part = append(part, stored{seq: row[0].(int64), packed: packed, who: row[2]}); len(part) == 4*fetchRows {
			flush()
		}
		return nil
	})
	flush()
	return t, err
}
