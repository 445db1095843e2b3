package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"talon/host"
	"talon/host/store/metrics"
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
	out, err := contained(tx, func() (host.Outcome, error) { return tx.put(e, now) })
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

// delete carries out a deletion event (NIP-09) and returns what it removed.
// Targets that are not ids or addresses of its author's are ignored.
func (tx *Tx) delete(e *host.Event) (removed []*host.Event, held []host.HeldChange, err error) {
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		var gone *host.Event
		var waited []host.HeldChange
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) {
				if gone, err = tx.deleteID(id, e.PubKey); err == nil {
					waited, err = tx.deleteHeldID(id, e.PubKey)
				}
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a.PubKey == e.PubKey {
				if gone, err = tx.deleteAddress(a, e.CreatedAt); err == nil {
					waited, err = tx.deleteHeldAddress(a, e.CreatedAt)
				}
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if gone != nil {
			removed = append(removed, gone)
		}
		held = append(held, waited...)
	}
	return removed, held, nil
}

// deleteID removes the event if it is the author's, and remembers that the
// author wants it gone, whether it is here or not.
func (tx *Tx) deleteID(id host.ID, author host.PubKey) (*host.Event, error) {
	c := tx.w.conn
	row, err := c.first(`SELECT seq, pubkey, kind FROM event WHERE seq = (`+eventOfID+`)`, tx.s.keys.id(id))
	if err != nil {
		return nil, err
	}
	var seq int64
	if row != nil {
		seq, _ = row[0].(int64)
		pubkey, _ := row[1].([]byte)
		if string(pubkey) != string(author[:]) || row[2] == int64(host.KindDeletion) {
			return nil, nil
		}
	}
	if err := c.exec(`INSERT OR IGNORE INTO deleted_id VALUES (?, ?)`, id[:], author[:]); err != nil {
		return nil, err
	}
	if row == nil {
		return nil, nil
	}
	return tx.remove(seq)
}

// deleteAddress removes the version that is not newer than until, and remembers
// that none such is wanted.
func (tx *Tx) deleteAddress(a host.Address, until int64) (*host.Event, error) {
	c := tx.w.conn
	key := tx.s.keys.address(a)
	err := c.exec(`
		INSERT INTO deleted_address VALUES (?, ?)
		ON CONFLICT (key) DO UPDATE SET until = max(until, excluded.until)`, key, until)
	if err != nil {
		return nil, err
	}
	row, err := c.first(`SELECT event FROM address WHERE key = ? AND created_at <= ?`, key, until)
	if err != nil || row == nil {
		return nil, err
	}
	return tx.remove(row[0].(int64))
}

// remove takes an event and all its index rows away and returns it, nil if it is
// not here.
func (tx *Tx) remove(seq int64) (*host.Event, error) {
	// What is to be removed may be of this transaction.
	if err := tx.index(); err != nil {
		return nil, err
	}
	c := tx.w.conn
	row, err := c.first(`SELECT json FROM event WHERE seq = ?`, seq)
	if err != nil || row == nil {
		return nil, err
	}
	text, _ := row[0].([]byte)
	e, err := parseRow(text)
	if err != nil {
		return nil, tx.removeDamaged(seq, textSize(text), err)
	}
	tx.w.rows = tx.s.keys.postings(tx.w.rows[:0], e, seq)
	tx.forget(seq)
	for _, r := range tx.w.rows {
		if seq > tx.w.merge.through(r.key) {
			continue
		}
		if err := c.exec(`DELETE FROM posting WHERE key = ? AND kind = ? AND place = ?`, r.key, r.kind, r.sortKey); err != nil {
			return nil, err
		}
	}
	if a, ok := e.Address(); ok {
		if err := c.exec(`DELETE FROM address WHERE key = ? AND event = ?`, tx.s.keys.address(a), seq); err != nil {
			return nil, err
		}
	}
	if at, ok := e.Expiration(); ok {
		if err := tx.unschedule(at, seq); err != nil {
			return nil, err
		}
	}
	return e, tx.deleteRow(seq, textSize(text))
}

// forget notes that memtables may have rows of an event that is gone.
func (tx *Tx) forget(seq int64) {
	if seq <= tx.w.merge.indexed {
		return
	}
	for _, t := range *tx.s.recent.Load() {
		t.remove(seq)
	}
}

// removeDamaged removes an event whose text cannot be read any more. What its
// index rows are is not known, so they are looked for: one damaged row must not
// stop every batch that touches it.
func (tx *Tx) removeDamaged(seq, size int64, cause error) error {
	tx.s.log.Error("remove damaged event", "seq", seq, "err", cause)
	tx.forget(seq)
	c := tx.w.conn
	if err := c.exec(`DELETE FROM posting WHERE substr(place, -8) = ?`, binary.BigEndian.AppendUint64(nil, uint64(seq))); err != nil {
		return err
	}
	for _, table := range []string{"event_id", "address", "expiry"} {
		if err := c.exec(fmt.Sprintf(`DELETE FROM %s WHERE event = ?`, table), seq); err != nil {
			return err
		}
	}
	tx.expiryChanged = true
	return tx.deleteRow(seq, size)
}

func (tx *Tx) deleteRow(seq, size int64) error {
	tx.work++
	tx.removed++
	tx.total.Events--
	tx.total.Bytes -= size
	row, err := tx.w.conn.first(`DELETE FROM event WHERE seq = ? RETURNING id`, seq)
	if err != nil || row == nil {
		return err
	}
	id, _ := row[0].([]byte)
	return tx.w.conn.exec(`DELETE FROM event_id WHERE key = ?`, tx.s.keys.key(nameID, string(id)))
}

// DeletedAddress reports whether the author has deleted the version of that time
// at the address, in unix seconds: a deletion event (NIP-09) names the address and
// is not older. Such a version is never stored, nor held.
func (s *Store) DeletedAddress(ctx context.Context, a host.Address, createdAt int64) (deleted bool, err error) {
	err = s.use(ctx, metrics.Deleted, func(r *reader) error {
		row, err := r.first(`SELECT 1 FROM deleted_address WHERE key = ? AND until >= ?`, r.keys.address(a), createdAt)
		deleted = row != nil
		return err
	})
	return deleted, err
}
