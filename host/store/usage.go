package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// maxUsageBytes bounds the keys that are counted in memory. An identifier may have 2 KiB.
const maxUsageBytes = 8 << 20

// usageRows is the most rows of table usage that one statement changes.
const usageRows = 8

// changeUsage has the statement that adds n rows to table usage at index n.
var changeUsage = func() (sql [usageRows + 1]string) {
	for n := 1; n <= usageRows; n++ {
		sql[n] = "INSERT INTO usage VALUES (?, ?, ?, ?, ?)" + strings.Repeat(", (?, ?, ?, ?, ?)", n-1) + `
			ON CONFLICT (class, key) DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes, git = git + excluded.git`
	}
	return sql
}()

// Table usage counts events some thousand late, like the index rows of a [memtable]: a row that
// is written for one event makes a page dirty for itself, and rows of many events share pages.
// Its point says up to which event it counts. The rest follows from the events, so a crash loses
// nothing. An event that the table counts leaves it in the transaction that removes it.

// pendingUsage is the usage of committed events that table usage does not count yet.
type pendingUsage struct {
	mu      sync.Mutex
	point   int64 // of the table
	changes semantics.UsageChanges
	bytes   int // of the keys of changes, at most
}

// usageOfTx is what a transaction changes of the usage.
type usageOfTx struct {
	point  int64                  // of the table, also after the transaction
	added  []*host.Event          // after the point
	recent semantics.UsageChanges // of other events after the point
	table  semantics.UsageChanges // of other events: to be written
	moved  bool                   // the point has moved, and table has what was pending
}

func newUsageOfTx() usageOfTx {
	return usageOfTx{recent: semantics.UsageChanges{}, table: semantics.UsageChanges{}}
}

// at returns the changes that count an event.
func (u *usageOfTx) at(seq int64) semantics.UsageChanges {
	if seq > u.point {
		return u.recent
	}
	return u.table
}

// clear forgets the changes and resets the point to that of the table, since a transaction that is
// rolled back has not moved it.
func (u *usageOfTx) clear(point int64) {
	clear(u.added)
	u.added = u.added[:0]
	clear(u.recent)
	clear(u.table)
	u.point, u.moved = point, false
}

// record notes what a transaction has committed.
func (p *pendingUsage) record(u *usageOfTx) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.moved {
		clear(p.changes)
		p.point, p.bytes = u.point, 0
	}
	for _, e := range u.added {
		p.bytes += p.changes.Add(e)
	}
	p.changes.Merge(u.recent)
}

// writeUsage writes what the transaction changes of events that the table counts, and all that is
// pending if that is much.
func (tx *Tx) writeUsage() error {
	u, p, c := &tx.w.usage, &tx.s.usage, tx.w.conn
	if tx.w.seq-p.point >= tx.w.tune.usageFrom || p.bytes >= maxUsageBytes {
		u.table.Merge(p.changes) // the writer alone changes them
		for _, e := range u.added {
			u.table.Add(e)
		}
		clear(u.added)
		u.added = u.added[:0]
		u.table.Merge(u.recent)
		clear(u.recent)
		u.point, u.moved = tx.w.seq, true
		if err := c.exec(`UPDATE usage_point SET seq = ?`, u.point); err != nil {
			return err
		}
	}
	if len(u.table) == 0 {
		return nil
	}
	return c.changeUsage(u.table.Rows())
}

// loadUsage counts the events that the table does not.
func (s *Store) loadUsage(c *conn) error {
	point, err := c.usagePoint()
	if err != nil {
		return err
	}
	pending := semantics.UsageChanges{}
	if err := c.eachUsage(point, pending, func() error { return nil }); err != nil {
		return err
	}
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.point, s.usage.changes, s.usage.bytes = point, pending, 0
	for key := range pending {
		s.usage.bytes += len(key.Key)
	}
	s.writer.usage.clear(point)
	return nil
}

func (c *conn) usagePoint() (int64, error) {
	return c.number(context.Background(), `SELECT seq FROM usage_point`)
}

// changeUsage adds changes to table usage. Rows of nothing go.
func (c *conn) changeUsage(rows []host.UsageRow) error {
	var args [5 * usageRows]driver.Value
	for len(rows) > 0 {
		n := min(len(rows), usageRows)
		for i, r := range rows[:n] {
			args[5*i], args[5*i+1], args[5*i+2], args[5*i+3], args[5*i+4] = int64(r.Class), []byte(r.Key), r.Events, r.Bytes, r.Git
		}
		if err := c.exec(changeUsage[n], args[:5*n]...); err != nil {
			return err
		}
		for _, r := range rows[:n] {
			if r.Events > 0 || r.Git > 0 {
				continue
			}
			const sql = `DELETE FROM usage WHERE class = ? AND key = ? AND events = 0 AND git = 0`
			if err := c.exec(sql, int64(r.Class), []byte(r.Key)); err != nil {
				return err
			}
		}
		rows = rows[n:]
	}
	return nil
}

// usageRow returns author and kind of a row, and its size.
func usageRow(row []driver.Value, size int64) (author host.PubKey, kind host.Kind, bytes int64) {
	key, _ := row[0].([]byte)
	copy(author[:], key)
	number, _ := row[1].(int64)
	return author, host.Kind(number), size
}

// countUsage makes table usage of the stored events.
func (c *conn) countUsage() error {
	const flushAt = 10_000 // keys
	counted := semantics.UsageChanges{}
	flush := func() error {
		err := c.changeUsage(counted.Rows())
		clear(counted)
		return err
	}
	err := c.eachUsage(0, counted, func() error {
		if len(counted) < flushAt {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = c.exec(`INSERT INTO usage_point SELECT 1, ifnull(max(seq), 0) FROM event`)
	}
	return err
}

// eachUsage counts the events after a row number, in parts, and calls flush after each part.
func (c *conn) eachUsage(last int64, counted semantics.UsageChanges, flush func() error) error {
	type stored struct {
		author, kind driver.Value
		text         []byte
	}
	for {
		var part []stored
		const sql = `SELECT seq, pubkey, kind, json FROM event WHERE seq > ? ORDER BY seq LIMIT ?`
		err := c.each(context.Background(), sql, list(last, int64(fetchRows)), func(row []driver.Value) error {
			last, _ = row[0].(int64)
			text, _ := row[3].([]byte)
			part = append(part, stored{row[1], row[2], text})
			return nil
		})
		if err != nil || len(part) == 0 {
			return err
		}
		for _, p := range part {
			if e, err := parseRow(p.text); err == nil {
				counted.Add(e)
			} else {
				counted.AddRow(usageRow([]driver.Value{p.author, p.kind}, textSize(p.text)))
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
}

// readUsage calls read with a connection that has a snapshot, and with the usage that the table of
// the snapshot does not count: a part of it, which some copies.
func (s *Store) readUsage(
	ctx context.Context, some func(pending semantics.UsageChanges) semantics.UsageChanges, read func(c *conn, pending semantics.UsageChanges) error,
) error {
	err := s.use(ctx, metrics.Usage, func(r *reader) (err error) {
		for err = errOtherPoint; err == errOtherPoint && ctx.Err() == nil; {
			if err = r.readUsage(some, read); err == errOtherPoint {
				time.Sleep(50 * time.Microsecond) // the writer is about to record a commit
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read usage: %w", err)
	}
	return nil
}

// errOtherPoint says that the table of a snapshot counts other events than those that do not pend.
var errOtherPoint = errors.New("the usage changes: try again")

func (r *reader) readUsage(
	some func(pending semantics.UsageChanges) semantics.UsageChanges, read func(c *conn, pending semantics.UsageChanges) error,
) (err error) {
	if err := r.exec(`BEGIN`); err != nil {
		return err
	}
	defer func() {
		if cerr := r.exec(`COMMIT`); cerr != nil {
			err = errors.Join(err, cerr, r.abandon())
		}
	}()
	point, err := r.usagePoint()
	if err != nil {
		return err
	}
	pending := semantics.UsageChanges{}
	if r.store.writer == nil { // another process writes
		err = r.eachUsage(point, pending, func() error { return nil })
	} else {
		pending, err = r.store.usage.copy(point, some)
	}
	if err != nil {
		return err
	}
	return read(r.conn, pending)
}

// copy copies a part of what the table does not count, if its point is the given one.
func (p *pendingUsage) copy(point int64, some func(semantics.UsageChanges) semantics.UsageChanges) (semantics.UsageChanges, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.point != point {
		return nil, errOtherPoint
	}
	return some(p.changes), nil
}

// Usage returns what authors, repositories or kinds take, in the order of the keys.
func (s *Store) Usage(ctx context.Context, keys ...host.UsageKey) (list []host.Usage, err error) {
	ofKeys := func(pending semantics.UsageChanges) semantics.UsageChanges {
		found := semantics.UsageChanges{}
		for _, key := range keys {
			found[key] = pending[key]
		}
		return found
	}
	err = s.readUsage(ctx, ofKeys, func(c *conn, pending semantics.UsageChanges) error {
		list = make([]host.Usage, len(keys))
		for i, key := range keys {
			u, err := c.usage(key)
			if err != nil {
				return err
			}
			u.Add(pending[key])
			list[i] = u
		}
		return nil
	})
	return list, err
}

func (c *conn) usage(key host.UsageKey) (u host.Usage, err error) {
	row, err := c.first(`SELECT events, bytes, git FROM usage WHERE class = ? AND key = ?`, int64(key.Class), []byte(key.Key))
	if row != nil {
		u.Events, _ = row[0].(int64)
		u.Bytes, _ = row[1].(int64)
		u.Git, _ = row[2].(int64)
	}
	return u, err
}

// LargestUsage returns the authors, repositories or kinds that take most bytes, the largest first.
func (s *Store) LargestUsage(ctx context.Context, class host.UsageClass, limit int) (rows []host.UsageRow, err error) {
	err = s.readUsage(ctx, maps.Clone, func(c *conn, pending semantics.UsageChanges) error {
		rows = nil
		const sql = `SELECT class, key, events, bytes, git FROM usage WHERE class = ? ORDER BY bytes + git DESC, key LIMIT ?`
		err := c.each(context.Background(), sql, list(int64(class), int64(limit)), func(row []driver.Value) error {
			rows = append(rows, scanUsage(row))
			return nil
		})
		if err != nil {
			return err
		}
		have := make(map[string]bool, len(rows))
		for i := range rows {
			have[rows[i].Key] = true
			rows[i].Add(pending[rows[i].UsageKey])
		}
		// What pends is never negative, so the others in the table stay behind.
		for key, more := range pending {
			if key.Class != class || have[key.Key] || more == (host.Usage{}) {
				continue
			}
			u, err := c.usage(key)
			if err != nil {
				return err
			}
			u.Add(more)
			rows = append(rows, host.UsageRow{UsageKey: key, Usage: u})
		}
		slices.SortFunc(rows, host.UsageRow.Compare)
		rows = rows[:min(limit, len(rows))]
		return nil
	})
	return rows, err
}

func scanUsage(row []driver.Value) (u host.UsageRow) {
	class, _ := row[0].(int64)
	key, _ := row[1].([]byte)
	u.Class, u.Key = host.UsageClass(class), string(key)
	u.Events, _ = row[2].(int64)
	u.Bytes, _ = row[3].(int64)
	u.Git, _ = row[4].(int64)
	return u
}

// usageInTx returns the usage for the holder of the right to write, who alone changes it. REQUIRES:
// the transaction has changed no events.
func (s *Store) usageInTx(key host.UsageKey) (host.Usage, error) {
	u, err := s.writer.conn.usage(key)
	u.Add(s.usage.changes[key])
	return u, err
}

// AuthorUsage returns how much of the store an author takes, with the changes of the transaction.
func (tx *Tx) AuthorUsage(author host.PubKey) (host.Usage, error) {
	key, w := host.UsageOfAuthor(author), tx.w
	u, err := w.conn.usage(key)
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	u.Add(tx.s.usage.changes[key]) // the writer alone changes them
	u.Add(w.usage.recent[key])
	u.Add(w.usage.table[key])
	for _, e := range w.usage.added {
		if e.PubKey == author {
			u.Add(host.Usage{Events: 1, Bytes: int64(len(e.JSON))})
		}
	}
	return u, nil
}

// SetGitUsage notes how many bytes of git data a repository has. More than before is refused with
// [host.ErrQuota] if a limit does not allow it. The owner of the repository has the sum of
// its repositories.
//
// It waits for the open [Tx], and the next one waits for it.
func (s *Store) SetGitUsage(ctx context.Context, repository host.UsageKey, bytes int64, limits host.UsageLimits) error {
	if s.writer == nil {
		return fmt.Errorf("note the usage of %s: %w", repository, ErrReadOnly)
	}
	err := s.changeState(ctx, func(c *conn) error {
		changes, err := semantics.ChangeGitUsage(repository, bytes, limits, s.usageInTx)
		if err != nil {
			return err
		}
		return c.changeUsage(changes)
	})
	if err != nil {
		return fmt.Errorf("note the usage of %s: %w", repository, err)
	}
	return nil
}

// checkUsage compares table usage with those events that it counts.
func (c *checker) checkUsage(ctx context.Context) error {
	check := semantics.UsageCheck{Counted: c.usage.table, Problem: c.problem}
	err := c.each(ctx, `SELECT class, key, events, bytes, git FROM usage`, nil, func(row []driver.Value) error {
		check.Row(scanUsage(row))
		return nil
	})
	check.End()
	return err
}
