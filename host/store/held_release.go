package store

import (
	"database/sql/driver"
	"fmt"

	"talon/host"
	"talon/host/store/semantics"
)

// Release stores held events as Put would, oldest first, so that a newer version
// takes effect after an older one. With the rest of the transaction it happens as a
// whole or not at all. What is not held any more, or must not be stored, is
// reported so: asking twice is harmless.
func (tx *Tx) Release(r host.Release, now int64) (host.ReleaseOutcome, error) {
	if err := tx.ready(); err != nil {
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	out, err := tx.release(&r, now)
	if err != nil {
		tx.failed = err
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	return out, nil
}

func (tx *Tx) release(r *host.Release, now int64) (out host.ReleaseOutcome, err error) {
	var found []semantics.Waiting
	seen := make(map[host.ID]struct{}, len(r.IDs))
	for _, id := range r.IDs {
		if _, ok := seen[id]; ok {
			continue
		}
		seen[id] = struct{}{}
		row, err := tx.w.conn.first(`SELECT created_at FROM held WHERE id = ?`, id[:])
		if err != nil {
			return out, err
		}
		w := semantics.Waiting{ID: id}
		if row != nil {
			w.CreatedAt, _ = row[0].(int64)
		}
		found = append(found, w)
	}
	semantics.SortForRelease(found)
	for _, w := range found {
		one, err := tx.releaseOne(w.ID, now, &out)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, one)
	}
	return out, tx.restart(r.Restart, now, &out.Held)
}

func (tx *Tx) releaseOne(id host.ID, now int64, out *host.ReleaseOutcome) (host.Released, error) {
	// One that was released before it may have taken this one away.
	row, err := tx.w.conn.first(`SELECT number FROM held WHERE id = ?`, id[:])
	if err != nil {
		return host.Released{}, err
	}
	var e *host.Event
	if row != nil {
		if e, err = tx.removeHeld(row[0].(int64)); err != nil {
			return host.Released{}, err
		}
	}
	if e == nil {
		fate, err := tx.absent(id)
		return host.Released{ID: id, Fate: fate}, err
	}
	put, err := tx.put(e, now)
	if err != nil {
		return host.Released{}, err
	}
	fate := host.FateReleased
	switch {
	case put.Reason == reasonDeleted:
		fate = host.FateDeleted
	case put.Reason == reasonExpired:
		fate = host.FateExpired
	case put.Reason == reasonNewer:
		fate = host.FateReplaced
	case put.Code != host.Stored:
		fate = host.FateStored
	}
	out.Removed = append(out.Removed, put.Removed...)
	out.Held = append(out.Held, host.HeldChange{Event: e, Fate: fate})
	out.Held = append(out.Held, put.Held...)
	return host.Released{ID: id, Fate: fate, Event: e, Seq: put.Seq}, nil
}

// absent says, as far as it is known, why an event is not held. Anybody may have
// asked for the deletion of an id that is nowhere.
func (tx *Tx) absent(id host.ID) (host.Fate, error) {
	for _, where := range []struct {
		sql  string
		fate host.Fate
	}{
		{`SELECT 1 FROM event WHERE id = ?`, host.FateStored},
		{`SELECT 1 FROM held_gone WHERE id = ?`, host.FateExpired},
		{`SELECT 1 FROM deleted_id WHERE id = ? LIMIT 1`, host.FateDeleted},
	} {
		row, err := tx.w.conn.first(where.sql, id[:])
		if err != nil {
			return 0, err
		}
		if row != nil {
			return where.fate, nil
		}
	}
	return host.FateAbsent, nil
}

// supersede takes out of purgatory what a stored event makes pointless: itself, and
// older versions at its address. They would never be stored.
func (tx *Tx) supersede(e *host.Event) (changes []host.HeldChange, err error) {
	drop := func(fate host.Fate, sql string, args ...driver.Value) error {
		found, err := tx.w.conn.numbers(sql, args...)
		for _, number := range found {
			if err == nil {
				err = tx.dropHeld(number, fate, &changes)
			}
		}
		return err
	}
	if err := drop(host.FateReleased, `SELECT number FROM held WHERE id = ?`, e.ID[:]); err != nil {
		return nil, err
	}
	if a, ok := e.Address(); ok {
		err = drop(host.FateReplaced, `
			SELECT number FROM held INDEXED BY held_address
			WHERE address = ?1 AND (created_at < ?2 OR created_at = ?2 AND id > ?3)`, tx.s.keys.address(a), e.CreatedAt, e.ID[:])
	}
	return changes, err
}

// deleteHeldID is deleteID for what is held.
func (tx *Tx) deleteHeldID(id host.ID, author host.PubKey) (changes []host.HeldChange, err error) {
	if tx.total.Held == 0 {
		return nil, nil
	}
	found, err := tx.w.conn.numbers(`SELECT number FROM held INDEXED BY held_id WHERE id = ? AND pubkey = ? AND kind <> 5`, id[:], author[:])
	for _, number := range found {
		if err == nil {
			err = tx.dropHeld(number, host.FateDeleted, &changes)
		}
	}
	return changes, err
}

// deleteHeldAddress is deleteAddress for what is held: all versions that are not
// newer than until.
func (tx *Tx) deleteHeldAddress(a host.Address, until int64) (changes []host.HeldChange, err error) {
	if !tx.mayHold(a.Kind) {
		return nil, nil
	}
	const sql = `SELECT number FROM held INDEXED BY held_address WHERE address = ? AND created_at <= ?`
	found, err := tx.w.conn.numbers(sql, tx.s.keys.address(a), until)
	for _, number := range found {
		if err == nil {
			err = tx.dropHeld(number, host.FateDeleted, &changes)
		}
	}
	return changes, err
}
