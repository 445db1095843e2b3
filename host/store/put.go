package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/store/semantics"
)

// Reasons of Put, as clients see them.
const (
	reasonHave    = semantics.ReasonHave
	reasonNewer   = semantics.ReasonNewer
	reasonDeleted = semantics.ReasonDeleted
	reasonExpired = semantics.ReasonExpired
)

// ErrEphemeral says that an event given to Put is ephemeral and is not stored.
var ErrEphemeral = semantics.ErrEphemeral

// Put stores the event, or returns why it does not: it is here already, or a newer
// version is, or its author deleted it, or it has expired by now. What it replaces or
// deletes, held events included, is in the outcome. The outcome holds once Commit
// succeeds.
//
// The event's id and signature must have been checked.
func (tx *Tx) Put(e *host.Event, now int64) (host.Outcome, error) {
	if err := tx.ready(); err != nil {
		return host.Outcome{}, fmt.Errorf("put event: %w", err)
	}
	if e.Kind.Class() == host.Ephemeral {
		return host.Outcome{}, fmt.Errorf("put event: %w", ErrEphemeral)
	}
	began := time.Now()
	out, err := tx.put(e, now)
	if err != nil {
		tx.failed = err
		tx.s.metrics.PutErrors.Inc()
		return host.Outcome{}, fmt.Errorf("put event %s: %w", e.ID, err)
	}
	tx.s.metrics.Put[out.Code].Observe(time.Since(began).Seconds())
	return out, nil
}

func (tx *Tx) put(e *host.Event, now int64) (host.Outcome, error) {
	at, expires := e.Expiration()
	if expires && at <= now {
		return host.Outcome{Code: host.Rejected, Reason: reasonExpired}, nil
	}
	out, err := tx.putAny(e)
	if err == nil && out.Code == host.Stored && tx.mayHold(e.Kind) {
		var superseded []host.HeldChange
		superseded, err = tx.supersede(e)
		out.Held = append(out.Held, superseded...)
	}
	return out, err
}

func (tx *Tx) putAny(e *host.Event) (host.Outcome, error) {
	if a, ok := e.Address(); ok {
		return tx.putVersion(e, tx.s.keys.address(a))
	}
	out, err := tx.insert(e)
	if err == nil && e.Kind == host.KindDeletion && out.Code == host.Stored {
		out.Removed, out.Held, err = tx.delete(e)
	}
	return out, err
}

// putVersion stores an event that has an address, if it is the newest there.
func (tx *Tx) putVersion(e *host.Event, key []byte) (host.Outcome, error) {
	row, err := tx.w.conn.first(`
		SELECT a.event, a.created_at, a.id, d.until
		FROM (SELECT 1) LEFT JOIN address a ON a.key = ?1 LEFT JOIN deleted_address d ON d.key = ?1`, key)
	if err != nil {
		return host.Outcome{}, err
	}
	current, taken := row[0].(int64)
	if taken {
		id, _ := row[2].([]byte)
		if bytes.Equal(id, e.ID[:]) {
			return host.Outcome{Code: host.Duplicate, Reason: reasonHave}, nil
		}
		createdAt, _ := row[1].(int64)
		if createdAt > e.CreatedAt || createdAt == e.CreatedAt && string(id) < string(e.ID[:]) {
			return host.Outcome{Code: host.Replaced, Reason: reasonNewer}, nil
		}
	}
	if until, ok := row[3].(int64); ok && e.CreatedAt <= until {
		return host.Outcome{Code: host.Rejected, Reason: reasonDeleted}, nil
	}
	out, err := tx.insert(e)
	if err != nil || out.Code != host.Stored {
		return out, err
	}
	if taken {
		old, err := tx.remove(current)
		if err != nil {
			return host.Outcome{}, err
		}
		if old != nil {
			out.Removed = []*host.Event{old}
		}
	}
	return out, tx.w.conn.exec(`INSERT OR REPLACE INTO address VALUES (?, ?, ?, ?)`, key, out.Seq, e.CreatedAt, e.ID[:])
}

// insert adds the event and its index rows, unless it is here or was deleted.
func (tx *Tx) insert(e *host.Event) (host.Outcome, error) {
	c := tx.w.conn
	tx.w.seq++
	seq := tx.w.seq
	key := tx.s.keys.id(e.ID)
	n, err := c.change(`
		INSERT OR IGNORE INTO event_id SELECT ?1, ?2, ?3
		WHERE ?4 OR NOT EXISTS (SELECT 1 FROM deleted_id WHERE id = ?5 AND pubkey = ?6)`,
		key, e.CreatedAt, seq, e.Kind == host.KindDeletion, e.ID[:], e.PubKey[:])
	if err != nil {
		return host.Outcome{}, err
	}
	if n == 0 {
		tx.w.seq--
		row, err := c.first(eventOfID, key)
		if err != nil {
			return host.Outcome{}, err
		}
		if row != nil {
			return host.Outcome{Code: host.Duplicate, Reason: reasonHave}, nil
		}
		return host.Outcome{Code: host.Rejected, Reason: reasonDeleted}, nil
	}
	tx.w.packed = pack(tx.w.packed[:0], e.JSON)
	err = c.exec(`INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)`,
		seq, e.ID[:], e.PubKey[:], e.CreatedAt, int64(e.Kind), tx.w.packed)
	if err != nil {
		return host.Outcome{}, err
	}
	if at, ok := e.Expiration(); ok {
		if err := c.exec(`INSERT INTO expiry VALUES (?, ?)`, at, seq); err != nil {
			return host.Outcome{}, err
		}
		tx.expiryChanged = true
	}
	tx.w.rows = tx.s.keys.postings(tx.w.rows[:0], e, seq)
	for _, r := range tx.w.rows {
		if len(r.key) != keySize {
			tx.w.pending = append(tx.w.pending, r)
		}
	}
	tx.s.active().add(e, seq, tx.w.rows)
	tx.work++
	tx.total.Events++
	tx.total.Bytes += int64(len(e.JSON))
	tx.fresh = append(tx.fresh, text{seq, e.JSON})
	return host.Outcome{Code: host.Stored, Seq: seq}, nil
}

// postingRows is the most index rows that one statement inserts.
const postingRows = 12

// insertPostings[n] inserts n rows into posting.
var insertPostings = func() (sql [postingRows + 1]string) {
	for n := 1; n <= postingRows; n++ {
		sql[n] = "INSERT INTO posting VALUES (?, ?, ?)" + strings.Repeat(", (?, ?, ?)", n-1)
	}
	return sql
}()

// index writes the index rows of the events put since the last time that are not for the
// memtable.
func (tx *Tx) index() error {
	rows := tx.w.pending
	tx.w.pending = rows[:0]
	slices.SortFunc(rows, posting.compare)
	return tx.insertPostings(rows)
}

// insertPostings inserts rows, which are in their order in the table: neighbours then share
// the way down to their page.
func (tx *Tx) insertPostings(rows []posting) error {
	var args [3 * postingRows]driver.Value
	for len(rows) > 0 {
		n := min(len(rows), postingRows)
		for i, r := range rows[:n] {
			args[3*i], args[3*i+1], args[3*i+2] = r.key, r.kind, r.sortKey
		}
		if err := tx.w.conn.exec(insertPostings[n], args[:3*n]...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (tx *Tx) sweep(now int64, limit int) ([]*host.Event, error) {
	type entry struct{ at, seq int64 }
	var due []entry
	const sql = `SELECT at, event FROM expiry WHERE at <= ? ORDER BY at, event LIMIT ?`
	err := tx.w.conn.each(context.Background(), sql, list(now, int64(limit)), func(row []driver.Value) error {
		due = append(due, entry{row[0].(int64), row[1].(int64)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var removed []*host.Event
	for _, d := range due {
		e, err := tx.remove(d.seq)
		if err != nil {
			return nil, err
		}
		if e == nil {
			// An entry without its event is damage, which Check reports. Left alone
			// it would come up again with every sweep.
			if err := tx.unschedule(d.at, d.seq); err != nil {
				return nil, err
			}
			continue
		}
		removed = append(removed, e)
	}
	return removed, nil
}

func (tx *Tx) unschedule(at, seq int64) error {
	tx.expiryChanged = true
	return tx.w.conn.exec(`DELETE FROM expiry WHERE at = ? AND event = ?`, at, seq)
}
