package store

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// Put stores the event, or returns why it does not: see [semantics.Put]. The events that it
// replaces or deletes, held events included, are in the outcome. The outcome holds once Commit
// succeeds.
//
// The event's id and signature must have been checked.
func (tx *Tx) Put(e *host.Event, now int64) (host.Outcome, error) {
	return tx.one("put event", e, func() (host.Outcome, error) { return purgatory.Put(rows{tx}, e, now) })
}

// Known returns what the database has that decides about an event. The result holds until the
// next call. Unless all is set, it leaves open what Insert finds out of an event without an
// address.
func (r rows) Known(e *host.Event, all bool) (*semantics.Known, error) {
	tx := r.tx
	k := &tx.w.known
	*k = semantics.Known{IDKey: tx.s.keys.id(e.ID), MayBeHeld: r.MayHold(e.Kind), MayBeHidden: tx.total.Hidden > 0}
	if tx.total.Vanished > 0 {
		row, err := tx.w.conn.first(`SELECT until FROM vanished WHERE pubkey = ?`, e.PubKey[:])
		if err != nil {
			return nil, err
		}
		if row != nil {
			k.VanishedUntil, k.Vanished = row[0].(int64)
		}
	}
	const byID = `SELECT (SELECT 1 FROM event_id WHERE key = ?1), (SELECT 1 FROM deleted_id WHERE id = ?2 AND pubkey = ?3)`
	a, ok := e.Address()
	if !ok && !all {
		k.Open = true
		return k, nil
	}
	if !ok {
		row, err := tx.w.conn.first(byID, k.IDKey, e.ID[:], e.PubKey[:])
		if err != nil {
			return nil, err
		}
		k.Stored, k.Deleted = row[0] != nil, row[1] != nil
		return k, nil
	}
	k.AddressKey = tx.s.keys.address(a)
	row, err := tx.w.conn.first(byID+`, a.event, a.created_at, a.id, d.until
		FROM (SELECT 1) LEFT JOIN address a ON a.key = ?4 LEFT JOIN deleted_address d ON d.key = ?4`, k.IDKey, e.ID[:], e.PubKey[:], k.AddressKey)
	if err != nil {
		return nil, err
	}
	k.Stored, k.Deleted = row[0] != nil, row[1] != nil
	if seq, ok := row[2].(int64); ok {
		v := &tx.w.version
		k.Version = v
		v.Seq = seq
		v.CreatedAt, _ = row[3].(int64)
		id, _ := row[4].([]byte)
		copy(v.ID[:], id)
	}
	k.Until, k.AddressDeleted = row[5].(int64)
	return k, nil
}

// Insert stores an event with its index rows, and returns its number, 0 for one that Known left
// open and that is stored or deleted.
func (r rows) Insert(e *host.Event, k *semantics.Known, tombstones bool) (seq int64, err error) {
	tx, c := r.tx, r.tx.w.conn
	seq = tx.w.seq + 1
	n := int64(1)
	if k.Open {
		n, err = c.change(`
			INSERT OR IGNORE INTO event_id SELECT ?1, ?2, ?3, ?7
			WHERE NOT ?4 OR NOT EXISTS (SELECT 1 FROM deleted_id WHERE id = ?5 AND pubkey = ?6)`,
			k.IDKey, e.CreatedAt, seq, tombstones, e.ID[:], e.PubKey[:], withheld(e))
	} else {
		err = c.exec(`INSERT INTO event_id VALUES (?, ?, ?, ?)`, k.IDKey, e.CreatedAt, seq, withheld(e))
	}
	if err != nil || n == 0 {
		return 0, err
	}
	tx.w.seq = seq
	tx.w.packed = pack(tx.w.packed[:0], e.JSON)
	err = c.exec(`INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)`,
		seq, e.ID[:], e.PubKey[:], e.CreatedAt, int64(e.Kind), tx.w.packed, blob(e.Audience.Encode()))
	if err != nil {
		return 0, err
	}
	if k.AddressKey != nil {
		if err := c.exec(`INSERT OR REPLACE INTO address VALUES (?, ?, ?, ?)`, k.AddressKey, seq, e.CreatedAt, e.ID[:]); err != nil {
			return 0, err
		}
	}
	if at, ok := e.Expiration(); ok {
		if err := c.exec(`INSERT INTO expiry VALUES (?, ?)`, at, seq); err != nil {
			return 0, err
		}
		tx.expiryChanged = true
	}
	tx.w.rows = tx.s.keys.postings(tx.w.rows[:0], e, seq)
	tx.indexed += memEventBytes
	for _, p := range tx.w.rows {
		if len(p.key) != keySize {
			tx.w.pending = append(tx.w.pending, p)
			continue
		}
		tx.indexed += memKeyBytes + memRowBytes
	}
	tx.s.active().add(e, seq, tx.w.rows)
	tx.work++
	tx.total.Events++
	if e.Audience != nil {
		tx.total.Withheld++
	}
	tx.total.Bytes += int64(len(e.JSON))
	tx.w.usage.added = append(tx.w.usage.added, e)
	tx.fresh = append(tx.fresh, text{seq, e.JSON})
	return seq, nil
}

// withheld is the column of table event_id.
func withheld(e *host.Event) driver.Value {
	if e.Audience == nil {
		return nil
	}
	return int64(1)
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
	return removed, rows{tx}.sweepHidden(now, limit)
}

func (tx *Tx) unschedule(at, seq int64) error {
	tx.expiryChanged = true
	return tx.w.conn.exec(`DELETE FROM expiry WHERE at = ? AND event = ?`, at, seq)
}

// RemoveVersion removes what Known found at an event's address, and returns it.
func (r rows) RemoveVersion(v *semantics.Version) (*host.Event, error) { return r.tx.remove(v.Seq) }

// StoredByID returns the stored events among those ids.
func (r rows) StoredByID(ids []host.ID) (found []semantics.Stored, err error) {
	for _, id := range ids {
		found, err = r.stored(found, `SELECT seq, id, pubkey, kind, created_at FROM event WHERE seq = (`+eventOfID+`)`, r.tx.s.keys.id(id))
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// StoredAt returns the stored events at those addresses.
func (r rows) StoredAt(addresses []host.Address) (found []semantics.Stored, err error) {
	for _, a := range addresses {
		const sql = `SELECT seq, id, pubkey, kind, created_at FROM event WHERE seq = (SELECT event FROM address WHERE key = ?)`
		if found, err = r.stored(found, sql, r.tx.s.keys.address(a)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// stored appends the event that a statement selects.
func (r rows) stored(found []semantics.Stored, sql string, key []byte) ([]semantics.Stored, error) {
	row, err := r.tx.w.conn.first(sql, key)
	if err != nil || row == nil {
		return found, err
	}
	var e semantics.Stored
	e.Seq, _ = row[0].(int64)
	id, _ := row[1].([]byte)
	copy(e.ID[:], id)
	pubkey, _ := row[2].([]byte)
	copy(e.PubKey[:], pubkey)
	kind, _ := row[3].(int64)
	e.Kind = host.Kind(kind)
	e.CreatedAt, _ = row[4].(int64)
	return append(found, e), nil
}

// Remove removes stored events and returns those that can be read.
func (r rows) Remove(events []semantics.Stored) (removed []*host.Event, err error) {
	for _, e := range events {
		old, err := r.tx.remove(e.Seq)
		if err != nil {
			return nil, err
		}
		if old != nil {
			removed = append(removed, old)
		}
	}
	return removed, nil
}

// AddTombstones notes that the author deleted these ids.
func (r rows) AddTombstones(ids []host.ID, author host.PubKey) error {
	for _, id := range ids {
		if err := r.tx.w.conn.exec(`INSERT OR IGNORE INTO deleted_id VALUES (?, ?)`, id[:], author[:]); err != nil {
			return err
		}
	}
	return nil
}

// AddAddressTombstones notes that the author deleted these addresses up to a time.
func (r rows) AddAddressTombstones(addresses []host.Address, until int64) error {
	for _, a := range addresses {
		err := r.tx.w.conn.exec(`
			INSERT INTO deleted_address VALUES (?, ?)
			ON CONFLICT (key) DO UPDATE SET until = max(until, excluded.until)`, r.tx.s.keys.address(a), until)
		if err != nil {
			return err
		}
	}
	return nil
}

// StoredEvent returns the stored event of a number, nil if it cannot be read any more.
func (r rows) StoredEvent(seq int64) (*host.Event, error) {
	row, err := r.tx.w.conn.first(`SELECT json, audience FROM event WHERE seq = ?`, seq)
	if err != nil || row == nil {
		return nil, err
	}
	e, err := parseStored(row[0], row[1])
	if err != nil {
		return nil, nil // damage, which Check reports
	}
	return e, nil
}

// DeletedBy reports whether one of these keys has deleted the id.
func (r rows) DeletedBy(id host.ID, keys []host.PubKey) (bool, error) {
	for _, key := range keys {
		row, err := r.tx.w.conn.first(`SELECT 1 FROM deleted_id WHERE id = ? AND pubkey = ?`, id[:], key[:])
		if err != nil || row != nil {
			return row != nil, err
		}
	}
	return false, nil
}

// remove takes an event and all its index rows away and returns it, nil if it is
// not here.
func (tx *Tx) remove(seq int64) (*host.Event, error) {
	// The event to remove may be of this transaction.
	if err := tx.index(); err != nil {
		return nil, err
	}
	c := tx.w.conn
	row, err := c.first(`SELECT json, audience FROM event WHERE seq = ?`, seq)
	if err != nil || row == nil {
		return nil, err
	}
	text, _ := row[0].([]byte)
	e, err := parseStored(row[0], row[1])
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
	tx.w.usage.at(seq).Remove(e)
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

// removeDamaged removes an event whose text cannot be read any more. Its index rows are
// unknown, so removeDamaged searches for them. One damaged row must not stop every batch that
// touches it.
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
	row, err := c.first(`SELECT pubkey, kind FROM event WHERE seq = ?`, seq)
	if err != nil {
		return err
	}
	if row != nil {
		tx.w.usage.at(seq).RemoveRow(usageRow(row, size))
	}
	return tx.deleteRow(seq, size)
}

func (tx *Tx) deleteRow(seq, size int64) error {
	tx.work++
	tx.removed++
	tx.total.Events--
	tx.total.Bytes -= size
	row, err := tx.w.conn.first(`DELETE FROM event WHERE seq = ? RETURNING id, audience`, seq)
	if err != nil || row == nil {
		return err
	}
	if row[1] != nil {
		tx.total.Withheld--
	}
	id, _ := row[0].([]byte)
	return tx.w.conn.exec(`DELETE FROM event_id WHERE key = ?`, tx.s.keys.key(nameID, string(id)))
}

// DeletedAddress reports whether the author has deleted the version of that time
// at the address, in unix seconds: a deletion event (NIP-09) names the address and
// is not older, or the author has asked to vanish since. Such a version is never stored, nor held.
func (s *Store) DeletedAddress(ctx context.Context, a host.Address, createdAt int64) (deleted bool, err error) {
	err = s.use(ctx, metrics.Deleted, func(r *reader) error {
		const sql = `SELECT 1 WHERE EXISTS (SELECT 1 FROM deleted_address WHERE key = ?1 AND until >= ?2)
			OR EXISTS (SELECT 1 FROM vanished WHERE pubkey = ?3 AND until >= ?2)`
		row, err := r.first(sql, r.keys.address(a), createdAt, a.PubKey[:])
		deleted = row != nil
		return err
	})
	return deleted, err
}
