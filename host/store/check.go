package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/wire"
)

// Check compares everything that is stored with everything else, and calls report for each
// problem. It checks:
//
//   - the integrity of the file
//   - the text of each event with its row, and with its id and signature through verify
//   - index rows with events, in both directions
//   - addresses, expiries, tombstones, totals and purgatory
//
// It returns how many stored events it checked. An error means that it could not go on.
//
// It works on one snapshot, and so keeps the log of a process that writes at the
// same time from starting over.
func (s *Store) Check(ctx context.Context, verify func(*host.Event) error, report func(problem string)) (checked int64, err error) {
	r, err := s.acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("check events: %w", err)
	}
	defer s.release(r)
	err = r.beginSnapshot(math.MinInt64, func(v *snapshot) error {
		c := &checker{snapshot: v, verify: verify, report: report, usage: newUsageOfTx()}
		err := c.run(ctx)
		checked = c.events
		return err
	})
	if err != nil {
		return checked, fmt.Errorf("check events: %w", err)
	}
	return checked, nil
}

type checker struct {
	*snapshot
	verify func(*host.Event) error
	report func(string)

	// The rows that the events need, counted, to compare with the rows that exist.
	events, bytes, postings, addresses, expiries, withheldEvents int64

	rows  []posting
	usage usageOfTx
}

func (c *checker) problem(format string, args ...any) { c.report(fmt.Sprintf(format, args...)) }

func (c *checker) run(ctx context.Context) error {
	err := c.each(ctx, `PRAGMA integrity_check`, nil, func(row []driver.Value) error {
		if row[0] != "ok" {
			c.problem("database file: %v", row[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.usage.point, err = c.usagePoint(); err != nil {
		return err
	}
	if err := c.checkEvents(ctx); err != nil {
		return err
	}
	for _, check := range []func(context.Context) error{c.checkTotals, c.checkIDs, c.checkPostings, c.checkAddresses, c.checkExpiries, c.checkHeld, c.checkHidden, c.checkUsage} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// checkEvents goes through the events in pieces: what it asks for each of them
// would otherwise run inside one long statement.
func (c *checker) checkEvents(ctx context.Context) error {
	type stored struct {
		seq                                     int64
		id, pubkey, at, kind, rawText, audience driver.Value
	}
	last := int64(math.MinInt64)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var part []stored
		const sql = `SELECT seq, id, pubkey, created_at, kind, json, audience FROM event WHERE seq > ? ORDER BY seq LIMIT ?`
		err := c.each(context.Background(), sql, list(last, int64(fetchRows)), func(row []driver.Value) error {
			part = append(part, stored{row[0].(int64), row[1], row[2], row[3], row[4], row[5], row[6]})
			return nil
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			return nil
		}
		for _, p := range part {
			last = p.seq
			c.events++
			text, _ := p.rawText.([]byte)
			c.bytes += textSize(text)
			if p.audience != nil {
				c.withheldEvents++
			}
			e, err := parseStored(text, p.audience)
			if err != nil {
				c.problem("event %d (id %x): its text cannot be read: %v", p.seq, p.id, err)
				c.usage.at(p.seq).AddRow(usageRow([]driver.Value{p.pubkey, p.kind}, textSize(text)))
				continue
			}
			c.usage.at(p.seq).Add(e)
			if id, _ := p.id.([]byte); !bytes.Equal(id, e.ID[:]) {
				c.problem("event %d: its row says id %x, its text %s", p.seq, p.id, e.ID)
			}
			if pubkey, _ := p.pubkey.([]byte); !bytes.Equal(pubkey, e.PubKey[:]) || p.at != e.CreatedAt || p.kind != int64(e.Kind) {
				c.problem("event %d (%s): its row does not agree with its text", p.seq, e.ID)
			}
			if err := c.verify(e); err != nil {
				c.problem("event %d (%s): %v", p.seq, e.ID, err)
			}
			if err := c.checkEvent(p.seq, e); err != nil {
				return err
			}
		}
	}
}

// checkEvent looks for what must be there because the event is, and for what
// must not.
func (c *checker) checkEvent(seq int64, e *host.Event) error {
	if seq > c.seq {
		c.problem("event %d (%s): the highest number given is %d", seq, e.ID, c.seq)
	}
	exists := func(sql string, args ...driver.Value) (bool, error) {
		row, err := c.first(sql, args...)
		return row != nil, err
	}
	row, err := c.first(`SELECT event, created_at, withheld FROM event_id WHERE key = ?`, c.keys.id(e.ID))
	switch {
	case err != nil:
		return err
	case row == nil || row[0] != seq || row[1] != e.CreatedAt || (row[2] != nil) != (e.Audience != nil):
		c.problem("event %d (%s): not in the index of ids", seq, e.ID)
	}
	c.rows = c.keys.postings(c.rows[:0], e, seq)
	for _, r := range c.rows {
		var ok bool
		var err error
		if seq > c.merged.through(r.key) {
			ok, err = c.recentHas(r)
		} else {
			c.postings++
			ok, err = exists(`SELECT 1 FROM posting WHERE key = ? AND kind = ? AND place = ?`, r.key, r.kind, r.sortKey)
		}
		if err != nil {
			return err
		}
		if !ok {
			c.problem("event %d (%s): not in the index under key %x", seq, e.ID, r.key)
		}
	}
	if at, ok := e.Expiration(); ok {
		c.expiries++
		ok, err := exists(`SELECT 1 FROM expiry WHERE at = ? AND event = ?`, at, seq)
		if err != nil {
			return err
		}
		if !ok {
			c.problem("event %d (%s): its expiry at %d is not noted", seq, e.ID, at)
		}
	}
	if err := c.checkVersion(seq, e); err != nil {
		return err
	}
	if e.Kind == host.KindDeletion {
		return nil
	}
	deleted, err := exists(`SELECT 1 FROM deleted_id WHERE id = ? AND pubkey = ?`, e.ID[:], e.PubKey[:])
	if deleted {
		c.problem("event %d (%s): stored, but deleted by its author", seq, e.ID)
	}
	return err
}

// checkVersion checks an event that has an address.
func (c *checker) checkVersion(seq int64, e *host.Event) error {
	a, ok := e.Address()
	if !ok {
		return nil
	}
	c.addresses++
	key := c.keys.address(a)
	row, err := c.first(`SELECT event, created_at, id FROM address WHERE key = ?`, key)
	if err != nil {
		return err
	}
	switch {
	case row == nil:
		c.problem("event %d (%s): its address %s is not noted", seq, e.ID, a)
	case row[0] != seq:
		c.problem("event %d (%s): stored beside event %v, which has its address %s", seq, e.ID, row[0], a)
	default:
		if id, _ := row[2].([]byte); row[1] != e.CreatedAt || !bytes.Equal(id, e.ID[:]) {
			c.problem("event %d (%s): what is noted for its address %s does not agree with it", seq, e.ID, a)
		}
	}
	row, err = c.first(`SELECT until FROM deleted_address WHERE key = ?`, key)
	if err != nil {
		return err
	}
	if row != nil {
		if until, _ := row[0].(int64); e.CreatedAt <= until {
			c.problem("event %d (%s): stored, but its author deleted its address %s up to %d", seq, e.ID, a, until)
		}
	}
	return nil
}

func (c *checker) checkTotals(context.Context) error {
	t, err := c.total()
	if err != nil {
		return err
	}
	if t.Withheld != c.withheldEvents {
		c.problem("totals: %d withheld events noted, %d stored", t.Withheld, c.withheldEvents)
	}
	if t.Events != c.events || t.Bytes != c.bytes {
		c.problem("totals: %d events of %d bytes noted, %d of %d stored", t.Events, t.Bytes, c.events, c.bytes)
	}
	return nil
}

// Every row that an event calls for has been looked up. So if there are as many
// rows as events call for, there are no others.

func (c *checker) checkIDs(ctx context.Context) error {
	n, err := c.number(ctx, `SELECT count(*) FROM event_id`)
	if err != nil || n == c.events {
		return err
	}
	c.problem("index of ids: %d rows, %d events are stored", n, c.events)
	return c.stray(ctx, "index of ids", `SELECT event FROM event_id WHERE event NOT IN (SELECT seq FROM event) LIMIT 100`)
}

func (c *checker) checkPostings(ctx context.Context) error {
	if m := c.merged; m.indexed > m.target || m.target > c.seq || m.next < 0 || m.next > memShards {
		c.problem("index: rows of events up to %d and %d are noted as merged, the last of %d, before key byte %d", m.indexed, m.target, c.seq, m.next)
	}
	n, err := c.number(ctx, `SELECT count(*) FROM posting`)
	if err != nil || n == c.postings {
		return err
	}
	c.problem("index: %d rows, the events call for %d", n, c.postings)
	events := make(map[int64]struct{})
	const sql = `SELECT DISTINCT hex(substr(place, -8)) FROM posting`
	err = c.each(ctx, sql, nil, func(row []driver.Value) error {
		text, _ := row[0].(string)
		seq, _ := strconv.ParseUint(text, 16, 64)
		events[int64(seq)] = struct{}{}
		return nil
	})
	if err != nil {
		return err
	}
	for seq := range events {
		row, err := c.first(`SELECT 1 FROM event WHERE seq = ?`, seq)
		if err != nil {
			return err
		}
		if row == nil {
			c.problem("index: rows are for event %d, which is not there", seq)
		}
	}
	return nil
}

func (c *checker) checkAddresses(ctx context.Context) error {
	n, err := c.number(ctx, `SELECT count(*) FROM address`)
	if err != nil || n == c.addresses {
		return err
	}
	c.problem("addresses: %d rows, the events call for %d", n, c.addresses)
	return c.stray(ctx, "addresses", `SELECT event FROM address WHERE event NOT IN (SELECT seq FROM event) LIMIT 100`)
}

func (c *checker) checkExpiries(ctx context.Context) error {
	n, err := c.number(ctx, `SELECT count(*) FROM expiry`)
	if err != nil || n == c.expiries {
		return err
	}
	c.problem("expiries: %d rows, the events call for %d", n, c.expiries)
	return c.stray(ctx, "expiries", `SELECT event FROM expiry WHERE event NOT IN (SELECT seq FROM event) LIMIT 100`)
}

// stray names rows that belong to no event.
func (c *checker) stray(ctx context.Context, what, sql string) error {
	return c.each(ctx, sql, nil, func(row []driver.Value) error {
		c.problem("%s: a row is for event %v, which does not call for it", what, row[0])
		return nil
	})
}

// checkHeld compares purgatory with itself and with what is stored.
func (c *checker) checkHeld(ctx context.Context) error {
	var held, size, postings int64
	last := int64(0)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var part [][]driver.Value
		const sql = `
			SELECT number, json, id, pubkey, created_at, kind, address, since, due, dormant, cause, parent, wake
			FROM held WHERE number > ? ORDER BY number LIMIT ?`
		err := c.each(context.Background(), sql, list(last, int64(fetchRows)), func(row []driver.Value) error {
			part = append(part, append([]driver.Value(nil), row...))
			return nil
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			break
		}
		for _, row := range part {
			last, _ = row[0].(int64)
			text, _ := row[1].([]byte)
			held++
			size += int64(len(text))
			e, err := wire.ParseEvent(text)
			if err != nil {
				c.problem("held event %d (id %x): its text cannot be read: %v", last, row[2], err)
				continue
			}
			if err := c.checkHeldRow(e, row); err != nil {
				return err
			}
			c.rows = c.keys.heldPostings(c.rows[:0], e, last)
			postings += int64(len(c.rows))
			for _, r := range c.rows {
				found, err := c.first(`SELECT 1 FROM held_posting WHERE key = ? AND place = ? AND kind = ? AND held = ?`, r.key, r.sortKey, r.kind, last)
				if err != nil {
					return err
				}
				if found == nil {
					c.problem("held event %d (%s): not in the index under key %x", last, e.ID, r.key)
				}
			}
		}
	}
	t, err := c.total()
	if err != nil {
		return err
	}
	if t.Held != held || t.HeldBytes != size {
		c.problem("totals: %d held events of %d bytes noted, %d of %d held", t.Held, t.HeldBytes, held, size)
	}
	n, err := c.number(ctx, `SELECT count(*) FROM held_posting`)
	if err != nil {
		return err
	}
	if n != postings {
		c.problem("index of held events: %d rows, the events call for %d", n, postings)
	}
	return c.checkWeights(ctx)
}

// weights are what table held_weight must have.
const weights = `
	WITH h AS (SELECT *, 8 * known + 16 * (cause = 2) AS part FROM held)
	SELECT 0 + part AS class, x'' AS key, count(*) AS events, sum(length(json)) AS bytes FROM h GROUP BY part
	UNION ALL SELECT 1 + part, pubkey, count(*), sum(length(json)) FROM h GROUP BY part, pubkey
	UNION ALL SELECT 2 + part, network, count(*), sum(length(json)) FROM h WHERE network IS NOT NULL GROUP BY part, network
	UNION ALL SELECT 3 + part, x'', count(*), sum(length(json)) FROM h WHERE parent IS NOT NULL GROUP BY part
	UNION ALL SELECT 4 + part, network, count(*), sum(length(json)) FROM h WHERE parent IS NOT NULL AND network IS NOT NULL GROUP BY part, network`

// checkWeights compares the weights of authors and networks with the held events.
func (c *checker) checkWeights(ctx context.Context) error {
	for _, test := range []struct{ sql, what string }{
		{`SELECT class, key FROM (SELECT * FROM (` + weights + `) EXCEPT SELECT class, key, events, bytes FROM held_weight)`, "is not what the held events call for"},
		{`SELECT class, key FROM (SELECT class, key, events, bytes FROM held_weight EXCEPT SELECT * FROM (` + weights + `))`, "is noted, and the held events call for another"},
	} {
		err := c.each(ctx, test.sql, nil, func(row []driver.Value) error {
			c.problem("purgatory: the weight of class %v under key %x %s", row[0], row[1], test.what)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkHeldRow takes the columns that checkHeld reads.
func (c *checker) checkHeldRow(e *host.Event, row []driver.Value) error {
	number := row[0]
	id, _ := row[2].([]byte)
	pubkey, _ := row[3].([]byte)
	address, _ := row[6].([]byte)
	since, _ := row[7].(int64)
	causeColumn, _ := row[10].(int64)
	cause := purgatory.Cause(causeColumn)
	var key []byte
	a, addressed := e.Address()
	if addressed {
		key = c.keys.address(a)
	}
	if !bytes.Equal(id, e.ID[:]) || !bytes.Equal(pubkey, e.PubKey[:]) || row[4] != e.CreatedAt || row[5] != int64(e.Kind) || !bytes.Equal(address, key) {
		c.problem("held event %d (%s): its row does not agree with its text", number, e.ID)
	}
	if due, _ := row[8].(int64); !purgatory.DueFits(e, cause, since, due, row[9] == int64(1)) {
		c.problem("held event %d (%s): due at %v, which is wrong for one held since %d", number, e.ID, row[8], since)
	}
	if _, waits := row[12].([]byte); waits != (cause == purgatory.CauseVerdict) {
		c.problem("held event %d (%s): it has a filter of another event for which it waits, or lacks one", number, e.ID)
	}
	if err := c.verify(e); err != nil {
		c.problem("held event %d (%s): %v", number, e.ID, err)
	}
	if parent, ok := row[11].([]byte); ok {
		column := "address"
		if len(parent) == len(host.ID{}) {
			column = "id"
		}
		found, err := c.first(`SELECT 1 FROM held WHERE `+column+` = ? LIMIT 1`, parent)
		if err != nil {
			return err
		}
		if found == nil {
			c.problem("held event %d (%s): the held event on which it depends is not here", number, e.ID)
		}
	}
	for _, test := range []struct {
		sql  string
		args []driver.Value
		what string
	}{
		{eventOfID, list(c.keys.id(e.ID)), "held, but stored as well"},
		{`SELECT 1 FROM deleted_id WHERE id = ? AND pubkey = ? AND ? <> 5`, list(e.ID[:], e.PubKey[:], int64(e.Kind)), "held, but deleted by its author"},
		{`SELECT 1 FROM deleted_address WHERE key = ? AND until >= ?`, list(key, e.CreatedAt), "held, but its author deleted its address"},
		{
			`SELECT 1 FROM address WHERE key = ?1 AND (created_at > ?2 OR created_at = ?2 AND id < ?3)`,
			list(key, e.CreatedAt, e.ID[:]), "held, but a newer version is stored",
		},
		{
			`SELECT 1 FROM held INDEXED BY held_address WHERE address = ? AND ? = 30617 AND number <> ?`,
			list(key, int64(e.Kind), number), "held beside another version of the announcement",
		},
	} {
		found, err := c.first(test.sql, test.args...)
		if err != nil {
			return err
		}
		if found != nil {
			c.problem("held event %d (%s): %s", number, e.ID, test.what)
		}
	}
	return nil
}
