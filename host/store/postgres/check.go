package postgres

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// Check compares everything that is stored with everything else: each event's text with
// its row, its id and signature through verify, tags with events in both directions,
// tombstones, totals and purgatory. It calls report for each problem and returns how many
// stored events it looked at. An error means that it could not go on.
//
// It works on one snapshot.
func (s *Store) Check(ctx context.Context, verify func(*host.Event) error, report func(problem string)) (checked int64, err error) {
	select {
	case <-s.closed:
		return 0, fmt.Errorf("check events: %w", semantics.ErrClosed)
	default:
	}
	began := time.Now()
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		c := &checker{tx: tx, keys: &s.keys, verify: verify, report: report, usage: semantics.UsageChanges{}}
		err := c.run(ctx)
		checked = c.events
		return err
	})
	s.metrics.Queries[metrics.Check].Observe(time.Since(began).Seconds())
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return checked, fmt.Errorf("check events: %w", cause(err))
	}
	return checked, nil
}

type checker struct {
	tx     pgx.Tx
	keys   *keyring
	verify func(*host.Event) error
	report func(string)
	total  semantics.Total
	events int64
	usage  semantics.UsageChanges

	withheld int64 // of them
}

func (c *checker) problem(format string, args ...any) { c.report(fmt.Sprintf(format, args...)) }

func (c *checker) run(ctx context.Context) error {
	// It reads everything, and for as long as that takes.
	const plans = `SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on`
	if _, err := c.tx.Exec(ctx, plans); err != nil {
		return err
	}
	var placeholders, rows int64
	var next bool
	const sql = `SELECT seq, events, bytes, withheld, held, held_bytes, placeholders, (SELECT count(*) FROM placeholder), expires = least(` + nextExpiry + `, ` + nextHidden + `) AND due = ` + nextHeld + ` FROM total`
	t := &c.total
	if err := c.tx.QueryRow(ctx, sql).Scan(&t.Seq, &t.Events, &t.Bytes, &t.Withheld, &t.Held, &t.HeldBytes, &placeholders, &rows, &next); err != nil {
		return err
	}
	if !next {
		c.problem("totals: when something expires or is due next is not what is noted")
	}
	if placeholders != rows {
		c.problem("totals: %d placeholders noted, %d there", placeholders, rows)
	}
	n, size, err := c.table(ctx, stored)
	if err != nil {
		return err
	}
	c.events = n
	if t.Withheld != c.withheld {
		c.problem("totals: %d withheld events noted, %d stored", t.Withheld, c.withheld)
	}
	if t.Events != n || t.Bytes != size {
		c.problem("totals: %d events of %d bytes noted, %d of %d stored", t.Events, t.Bytes, n, size)
	}
	if n, size, err = c.table(ctx, held); err != nil {
		return err
	}
	if t.Held != n || t.HeldBytes != size {
		c.problem("totals: %d held events of %d bytes noted, %d of %d held", t.Held, t.HeldBytes, n, size)
	}
	if err := c.hidden(ctx); err != nil {
		return err
	}
	if err := c.checkUsage(ctx); err != nil {
		return err
	}
	return c.conflicts(ctx)
}

// hidden compares hidden events with the totals and with what is stored, and requests to vanish with
// the totals.
func (c *checker) hidden(ctx context.Context) error {
	var noted, notedSize, n, size, both int64
	const sql = `
		SELECT t.hidden, t.hidden_bytes, h.n, h.size, h.both FROM total t, (
			SELECT count(*) AS n, coalesce(sum(octet_length(json)), 0) AS size, count(e.id) AS both FROM hidden LEFT JOIN (SELECT id FROM event) e USING (id)
		) h`
	if err := c.tx.QueryRow(ctx, sql).Scan(&noted, &notedSize, &n, &size, &both); err != nil {
		return err
	}
	if noted != n || notedSize != size {
		c.problem("totals: %d hidden events of %d bytes noted, %d of %d there", noted, notedSize, n, size)
	}
	if both > 0 {
		c.problem("%d events are hidden and stored", both)
	}
	if err := c.tx.QueryRow(ctx, `SELECT t.vanished, (SELECT count(*) FROM vanished) FROM total t`).Scan(&noted, &n); err != nil {
		return err
	}
	if noted != n {
		c.problem("totals: %d requests to vanish noted, %d there", noted, n)
	}
	return nil
}

// row is one of table event or held.
type row struct {
	seq, createdAt            int64
	id, pubkey, sortKey, json []byte
	kind                      int32
	expires                   *int64
	address, audience         []byte
	since, due                int64
	dormant                   bool
	cause                     int16
	wake                      []byte
}

// table looks at every row, in pieces, and returns how many there are and the bytes of
// their JSON.
func (c *checker) table(ctx context.Context, t tables) (n, size int64, err error) {
	more := "0::bigint, 0::bigint, false, 0::smallint, NULL::bytea"
	name := "event"
	if t == held {
		more, name = "since, due, dormant, cause, wake", "held event"
	}
	var tags int64
	sql := `SELECT seq, created_at, id, pubkey, place, json, kind, expires, address, audience, ` + more + ` FROM ` + t.event + ` WHERE seq > $1 ORDER BY seq LIMIT $2`
	for last := int64(math.MinInt64); ; {
		found, err := c.tx.Query(ctx, sql, last, fetchRows)
		if err != nil {
			return n, size, err
		}
		rows, err := pgx.CollectRows(found, func(x pgx.CollectableRow) (r row, err error) {
			return r, x.Scan(&r.seq, &r.createdAt, &r.id, &r.pubkey, &r.sortKey, &r.json, &r.kind, &r.expires, &r.address, &r.audience, &r.since, &r.due, &r.dormant, &r.cause, &r.wake)
		})
		if err != nil {
			return n, size, err
		}
		if len(rows) == 0 {
			break
		}
		var want tagRows
		for i := range rows {
			r := &rows[i]
			last = r.seq
			n++
			size += int64(len(r.json))
			if t == held {
				r.audience = nil // it waits for the release
			} else if r.audience != nil {
				c.withheld++
			}
			e, err := parseEvent(r.json, r.audience)
			if err != nil {
				c.problem("%s %d (id %x): its text cannot be read: %v", name, r.seq, r.id, err)
				if t == stored {
					c.usage.AddRow(usageRow(r.pubkey, r.kind, r.json))
				}
				continue
			}
			if t == stored {
				c.usage.Add(e)
			}
			c.row(name, r, e, t)
			want.add(c.keys, t, e, r.seq)
		}
		tags += int64(len(want.key))
		if err := c.tags(ctx, t, name, &want); err != nil {
			return n, size, err
		}
	}
	// Every tag that an event calls for has been looked up. So if there are as many rows as
	// events call for, there are no others.
	var have int64
	if err := c.tx.QueryRow(ctx, `SELECT count(*) FROM `+t.tag).Scan(&have); err != nil {
		return n, size, err
	}
	if have != tags {
		c.problem("table %s: %d rows, the events call for %d", t.tag, have, tags)
	}
	return n, size, nil
}

// row compares a row with its text.
func (c *checker) row(name string, r *row, e *host.Event, t tables) {
	expires := expiry(e)
	same := bytes.Equal(r.id, e.ID[:]) && bytes.Equal(r.pubkey, e.PubKey[:]) && bytes.Equal(r.sortKey, sortKeyOf(e)) && r.createdAt == e.CreatedAt &&
		r.kind == indexKind(e) && bytes.Equal(r.address, c.keys.address(e)) && (r.expires == nil) == (expires == nil) && (expires == nil || *r.expires == *expires)
	if !same {
		c.problem("%s %d (%s): its row does not agree with its text", name, r.seq, e.ID)
	}
	if err := c.verify(e); err != nil {
		c.problem("%s %d (%s): %v", name, r.seq, e.ID, err)
	}
	switch {
	case t == held && !purgatory.DueFits(e, purgatory.Cause(r.cause), r.since, r.due, r.dormant):
		c.problem("%s %d (%s): due at %d, which is wrong for one held since %d", name, r.seq, e.ID, r.due, r.since)
	case t == stored && r.seq > c.total.Seq:
		c.problem("%s %d (%s): the highest number given is %d", name, r.seq, e.ID, c.total.Seq)
	}
}

// tags looks for rows that events call for.
func (c *checker) tags(ctx context.Context, t tables, name string, want *tagRows) error {
	sql := `
		SELECT x.seq, x.key FROM unnest($1::bytea[], $2::int[], $3::bytea[], $4::bigint[], $5::bigint[]) x (key, kind, place, seq, expires)
		WHERE NOT EXISTS (SELECT 1 FROM ` + t.tag + ` g WHERE g.key = x.key AND g.kind = x.kind AND g.place = x.place AND g.seq = x.seq AND g.expires IS NOT DISTINCT FROM x.expires)`
	rows, err := c.tx.Query(ctx, sql, want.key, want.kind, want.sortKey, want.seq, want.expires)
	if err != nil {
		return err
	}
	var seq int64
	var key []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &key}, func() error {
		c.problem("%s %d: not in the index under key %x", name, seq, key)
		return nil
	})
	return err
}

// conflicts looks for rows that exclude each other. The database itself makes sure that of an
// address at most one version is stored.
func (c *checker) conflicts(ctx context.Context) error {
	for _, rule := range []struct{ sql, problem string }{
		{`SELECT e.id FROM event e JOIN deleted_id d ON d.id = e.id AND d.pubkey = e.pubkey WHERE e.kind & 65535 <> 5`, "stored, but deleted by its author"},
		{`SELECT e.id FROM event e JOIN deleted_address d ON d.key = e.address WHERE e.created_at <= d.until`, "stored, but its author deleted its address"},
		{`SELECT h.id FROM held h JOIN event e ON e.id = h.id`, "held, but stored as well"},
		{`SELECT h.id FROM held h JOIN deleted_id d ON d.id = h.id AND d.pubkey = h.pubkey WHERE h.kind <> 5`, "held, but deleted by its author"},
		{`SELECT h.id FROM held h JOIN deleted_address d ON d.key = h.address WHERE h.created_at <= d.until`, "held, but its author deleted its address"},
		{`SELECT h.id FROM held h JOIN event e ON e.address = h.address WHERE e.place < h.place`, "held, but a newer version is stored"},
		{`SELECT h.id FROM held h JOIN held o ON o.address = h.address AND o.seq <> h.seq WHERE h.kind = 30617`, "held beside another version of the announcement"},
		{`SELECT h.id FROM held h WHERE (h.wake IS NOT NULL) <> (h.cause = 2)`, "held with a filter of another event for which it waits, or lacks one"},
		{`SELECT h.id FROM held h WHERE h.parent IS NOT NULL AND NOT EXISTS (SELECT 1 FROM held p WHERE p.address = h.parent OR p.id = h.parent)`, "held, and the held event on which it depends is not here"},
	} {
		rows, err := c.tx.Query(ctx, rule.sql)
		if err != nil {
			return err
		}
		var id []byte
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			c.problem("event %x: %s", id, rule.problem)
			return nil
		}); err != nil {
			return err
		}
	}
	return c.weights(ctx)
}

// weights compares the weights of authors and networks with the held events.
func (c *checker) weights(ctx context.Context) error {
	const weights = `
		WITH h AS (SELECT *, CASE WHEN known THEN 8 ELSE 0 END + CASE WHEN cause = 2 THEN 16 ELSE 0 END AS part, octet_length(json)::bigint AS size FROM held), w AS (
			SELECT 0 + part AS class, ''::bytea AS key, count(*) AS events, sum(size)::bigint AS bytes FROM h GROUP BY part
			UNION ALL SELECT 1 + part, pubkey, count(*), sum(size)::bigint FROM h GROUP BY part, pubkey
			UNION ALL SELECT 2 + part, network, count(*), sum(size)::bigint FROM h WHERE network IS NOT NULL GROUP BY part, network
			UNION ALL SELECT 3 + part, '', count(*), sum(size)::bigint FROM h WHERE parent IS NOT NULL GROUP BY part
			UNION ALL SELECT 4 + part, network, count(*), sum(size)::bigint FROM h WHERE parent IS NOT NULL AND network IS NOT NULL GROUP BY part, network
		), n AS (SELECT class::int, key, events, bytes FROM held_weight)
		SELECT class, key FROM ((SELECT * FROM w EXCEPT SELECT * FROM n) UNION ALL (SELECT * FROM n EXCEPT SELECT * FROM w)) x`
	rows, err := c.tx.Query(ctx, weights)
	if err != nil {
		return err
	}
	var class int32
	var key []byte
	_, err = pgx.ForEachRow(rows, []any{&class, &key}, func() error {
		c.problem("purgatory: the weight of class %d under key %x is not what the held events call for", class, key)
		return nil
	})
	return err
}
