package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// usageColumns are rows of table usage, a slice for each column.
type usageColumns struct {
	class              []int16
	key                [][]byte
	events, bytes, git []int64
}

func columnsOfUsage(rows []host.UsageRow) (c usageColumns) {
	for _, r := range rows {
		c.class, c.key = append(c.class, int16(r.Class)), append(c.key, []byte(r.Key))
		c.events, c.bytes, c.git = append(c.events, r.Events), append(c.bytes, r.Bytes), append(c.git, r.Git)
	}
	return c
}

// queueUsage queues changes of table usage. Rows of nothing go.
func queueUsage(b *pgx.Batch, rows []host.UsageRow) {
	if len(rows) == 0 {
		return
	}
	c := columnsOfUsage(rows)
	b.Queue(`
		INSERT INTO usage AS u SELECT * FROM unnest($1::smallint[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[])
		ON CONFLICT (class, key) DO UPDATE SET events = u.events + excluded.events, bytes = u.bytes + excluded.bytes, git = u.git + excluded.git`,
		c.class, c.key, c.events, c.bytes, c.git)
	var fewer []host.UsageRow
	for _, r := range rows {
		if r.Events <= 0 && r.Git <= 0 {
			fewer = append(fewer, r)
		}
	}
	if len(fewer) > 0 {
		c := columnsOfUsage(fewer)
		b.Queue(`
			DELETE FROM usage u USING unnest($1::smallint[], $2::bytea[]) x (class, key)
			WHERE u.class = x.class AND u.key = x.key AND u.events = 0 AND u.git = 0`, c.class, c.key)
	}
}

// usageRow returns author, kind and size of a row of table event.
func usageRow(pubkey []byte, kind int32, json []byte) (author host.PubKey, k host.Kind, size int64) {
	copy(author[:], pubkey)
	return author, host.Kind(kind), int64(len(json))
}

// countUsage makes table usage of the stored events.
func countUsage(ctx context.Context, tx pgx.Tx) error {
	const flushAt = 10_000 // keys
	counted := semantics.UsageChanges{}
	flush := func() error {
		var b pgx.Batch
		queueUsage(&b, counted.Rows())
		clear(counted)
		if b.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, &b).Close()
	}
	for last := int64(math.MinInt64); ; {
		found, err := tx.Query(ctx, `SELECT seq, pubkey, kind, json FROM event WHERE seq > $1 ORDER BY seq LIMIT $2`, last, fetchRows)
		if err != nil {
			return err
		}
		n := 0
		var pubkey, json []byte
		var kind int32
		_, err = pgx.ForEachRow(found, []any{&last, &pubkey, &kind, &json}, func() error {
			n++
			if e, err := wire.ParseEvent(json); err == nil {
				counted.Add(e)
			} else {
				counted.AddRow(usageRow(pubkey, kind, json))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if n == 0 {
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
	at := make(map[host.UsageKey]int, len(keys))
	rows := make([]host.UsageRow, len(keys))
	for i, key := range keys {
		at[key], rows[i].UsageKey = i, key
	}
	c := columnsOfUsage(rows)
	const sql = `
		SELECT u.class, u.key, u.events, u.bytes, u.git
		FROM unnest($1::smallint[], $2::bytea[]) x (class, key) JOIN usage u ON u.class = x.class AND u.key = x.key`
	err := s.each(ctx, metrics.Usage, sql, []any{c.class, c.key}, func(rows pgx.Rows) error {
		r, err := scanUsage(rows)
		if err == nil {
			list[at[r.UsageKey]] = r.Usage
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	return list, nil
}

// LargestUsage returns the authors, repositories or kinds that take most bytes, the largest first.
func (s *Store) LargestUsage(ctx context.Context, class host.UsageClass, limit int) (list []host.UsageRow, err error) {
	const sql = `SELECT class, key, events, bytes, git FROM usage WHERE class = $1 ORDER BY bytes + git DESC, key LIMIT $2`
	err = s.each(ctx, metrics.Usage, sql, []any{int16(class), limit}, func(rows pgx.Rows) error {
		r, err := scanUsage(rows)
		list = append(list, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	return list, nil
}

func scanUsage(row pgx.Row) (u host.UsageRow, err error) {
	var class int16
	var key []byte
	err = row.Scan(&class, &key, &u.Events, &u.Bytes, &u.Git)
	u.Class, u.Key = host.UsageClass(class), string(key)
	return u, err
}

// AuthorUsage returns how much of the store an author takes, with the changes of the transaction.
func (tx *Tx) AuthorUsage(author host.PubKey) (host.Usage, error) {
	if err := tx.ready(); err != nil {
		return host.Usage{}, fmt.Errorf("read usage: %w", err)
	}
	key := host.UsageOfAuthor(author)
	ctx, cancel := call()
	defer cancel()
	u, err := scanUsage(tx.s.conn.QueryRow(ctx, `SELECT class, key, events, bytes, git FROM usage WHERE class = $1 AND key = $2`, int16(key.Class), []byte(key.Key)))
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		tx.failed = err
		return host.Usage{}, fmt.Errorf("read usage: %w", err)
	}
	u.Add(tx.usage[key])
	return u.Usage, nil
}

// SetGitUsage notes how many bytes of git data a repository has. More than before is refused with
// [host.ErrQuota] if a limit does not allow it. The owner of the repository has the sum of
// its repositories.
func (s *Store) SetGitUsage(ctx context.Context, repository host.UsageKey, bytes int64, limits host.UsageLimits) error {
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// Transactions of events change the same rows.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, s.turnKey); err != nil {
			return err
		}
		changes, err := semantics.ChangeGitUsage(repository, bytes, limits, func(key host.UsageKey) (u host.Usage, err error) {
			err = tx.QueryRow(ctx, `SELECT events, bytes, git FROM usage WHERE class = $1 AND key = $2`, int16(key.Class), []byte(key.Key)).Scan(&u.Events, &u.Bytes, &u.Git)
			if errors.Is(err, pgx.ErrNoRows) {
				err = nil
			}
			return u, err
		})
		if err != nil || len(changes) == 0 {
			return err
		}
		var b pgx.Batch
		queueUsage(&b, changes)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return fmt.Errorf("note the usage of %s: %w", repository, err)
	}
	return nil
}

// checkUsage compares table usage with the events, which have been counted.
func (c *checker) checkUsage(ctx context.Context) error {
	check := semantics.UsageCheck{Counted: c.usage, Problem: c.problem}
	rows, err := c.tx.Query(ctx, `SELECT class, key, events, bytes, git FROM usage`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := scanUsage(rows)
		if err != nil {
			return err
		}
		check.Row(r)
	}
	check.End()
	return rows.Err()
}
