package store

import (
	"context"
	"encoding/binary"
	"fmt"

	"talon/host"
	"talon/host/store/metrics"
)

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
