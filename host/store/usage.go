package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

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

// writeUsage writes what the transaction changes of table usage.
func (tx *Tx) writeUsage() error {
	if len(tx.w.usage) == 0 {
		return nil
	}
	err := tx.w.conn.changeUsage(tx.w.usage.Rows())
	clear(tx.w.usage)
	return err
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
	type stored struct {
		author, kind driver.Value
		text         []byte
	}
	for last := int64(0); ; {
		var part []stored
		const sql = `SELECT seq, pubkey, kind, json FROM event WHERE seq > ? ORDER BY seq LIMIT ?`
		err := c.each(context.Background(), sql, list(last, int64(fetchRows)), func(row []driver.Value) error {
			last, _ = row[0].(int64)
			text, _ := row[3].([]byte)
			part = append(part, stored{row[1], row[2], text})
			return nil
		})
		if err != nil {
			return err
		}
		for _, p := range part {
			if e, err := parseRow(p.text); err == nil {
				counted.Add(e)
			} else {
				counted.AddRow(usageRow([]driver.Value{p.author, p.kind}, textSize(p.text)))
			}
		}
		if len(part) == 0 {
			return flush()
		}
		if len(counted) >= flushAt {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

// Usage returns what authors, repositories or kinds take, in the order of the keys.
func (s *Store) Usage(ctx context.Context, keys ...host.UsageKey) ([]host.Usage, error) {
	list := make([]host.Usage, len(keys))
	err := s.use(ctx, metrics.Usage, func(r *reader) (err error) {
		for i, key := range keys {
			if list[i], err = r.usage(key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	return list, nil
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
	err = s.use(ctx, metrics.Usage, func(r *reader) error {
		const sql = `SELECT class, key, events, bytes, git FROM usage WHERE class = ? ORDER BY bytes + git DESC, key LIMIT ?`
		return r.each(ctx, sql, list(int64(class), int64(limit)), func(row []driver.Value) error {
			rows = append(rows, scanUsage(row))
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	return rows, nil
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

// SetGitUsage notes how many bytes of git data a repository has. More than before is refused with
// [semantics.ErrQuota] if a limit does not allow it. The owner of the repository has the sum of
// its repositories.
//
// It waits for the open [Tx], and the next one waits for it.
func (s *Store) SetGitUsage(ctx context.Context, repository host.UsageKey, bytes int64, limits host.UsageLimits) error {
	if s.writer == nil {
		return fmt.Errorf("note the usage of %s: %w", repository, ErrReadOnly)
	}
	err := s.changeState(ctx, func(c *conn) error {
		changes, err := semantics.ChangeGitUsage(repository, bytes, limits, c.usage)
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

// checkUsage compares table usage with the events, which have been counted.
func (c *checker) checkUsage(ctx context.Context) error {
	check := semantics.UsageCheck{Counted: c.usage, Problem: c.problem}
	err := c.each(ctx, `SELECT class, key, events, bytes, git FROM usage`, nil, func(row []driver.Value) error {
		check.Row(scanUsage(row))
		return nil
	})
	check.End()
	return err
}
