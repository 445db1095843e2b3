package store

import (
	"database/sql/driver"
	"fmt"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// SweepHeld expires events in purgatory: announcements become dormant, and events whose
// time is over are removed. It looks at a few rows, in the order of limit; when there are
// more, [Store.NextHeld] stays in the past.
func (tx *Tx) SweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("sweep purgatory: %w", err)
	}
	changes, err = contained(tx, func() ([]host.HeldChange, error) { return tx.sweepHeld(now, limit) })
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("sweep purgatory: %w", err)
	}
	return changes, nil
}

func (tx *Tx) sweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	c := tx.w.conn
	for _, dormant := range []int64{0, 1} {
		const sql = `SELECT number FROM held INDEXED BY held_due WHERE dormant = ? AND due <= ? ORDER BY due LIMIT ?`
		found, err := c.numbers(sql, dormant, now, int64(limit))
		if err != nil {
			return nil, err
		}
		for _, number := range found {
			change, _, err := tx.age(number, now)
			if err != nil {
				return nil, err
			}
			if change != nil {
				changes = append(changes, *change)
			}
		}
	}
	const sql = `DELETE FROM held_gone WHERE id IN (SELECT id FROM held_gone INDEXED BY held_gone_until WHERE until <= ? LIMIT ?)`
	n, err := c.change(sql, now, int64(limit))
	if n > 0 {
		tx.holdChanged = true
	}
	return changes, err
}

// age brings one row to the phase in which it is now. It returns what changed, nil
// for nothing, and whether the row has gone.
func (tx *Tx) age(number, now int64) (change *host.HeldChange, gone bool, err error) {
	c := tx.w.conn
	row, err := c.first(`SELECT json, since, due, dormant FROM held WHERE number = ?`, number)
	if err != nil || row == nil {
		return nil, row == nil, err
	}
	text, _ := row[0].([]byte)
	since, _ := row[1].(int64)
	at, _ := row[2].(int64)
	dormant := row[3] == int64(1)
	if at > now {
		return nil, false, nil
	}
	e, err := wire.ParseEvent(text)
	if err != nil {
		_, err = tx.removeHeld(number)
		return nil, true, err
	}
	h := purgatory.Hold{Announcement: e.Kind == host.KindAnnouncement, Since: since}
	phase := h.Phase(now)
	if expires, ok := e.Expiration(); ok && expires <= now {
		phase = purgatory.Forgotten
	}
	switch phase {
	case purgatory.Gone, purgatory.Forgotten:
		if _, err := tx.removeHeld(number); err != nil {
			return nil, false, err
		}
		if until, ok := h.Next(now); ok && phase == purgatory.Gone {
			err = c.exec(`INSERT OR REPLACE INTO held_gone VALUES (?, ?)`, e.ID[:], until)
		}
		return &host.HeldChange{Event: e, Status: host.StatusExpired}, true, err
	case purgatory.Dormant:
		if !dormant {
			change = &host.HeldChange{Event: e, Status: host.StatusDormant}
		}
		dormant = true
	}
	return change, false, tx.schedule(number, since, semantics.Due(e, since, dormant), dormant)
}

func (tx *Tx) schedule(number, since, at int64, dormant bool) error {
	tx.holdChanged = true
	flag := int64(0)
	if dormant {
		flag = 1
	}
	return tx.w.conn.exec(`UPDATE held SET since = ?, due = ?, dormant = ? WHERE number = ?`, since, at, flag, number)
}

// restart starts the time of the held announcements at these addresses again.
func (tx *Tx) restart(addresses []host.Address, now int64, changes *[]host.HeldChange) error {
	if !tx.mayHold(host.KindAnnouncement) {
		return nil
	}
	for _, a := range addresses {
		if a.Kind != host.KindAnnouncement {
			continue
		}
		found, err := tx.w.conn.numbers(`SELECT number FROM held INDEXED BY held_address WHERE address = ?`, tx.s.keys.address(a))
		if err != nil {
			return err
		}
		for _, number := range found {
			if err := tx.restartRow(number, now, changes); err != nil {
				return err
			}
		}
	}
	return nil
}

// restartRow starts the time of an announcement again, if it is not too late.
func (tx *Tx) restartRow(number, now int64, changes *[]host.HeldChange) error {
	row, err := tx.w.conn.first(`SELECT json, since, dormant FROM held WHERE number = ?`, number)
	if err != nil || row == nil {
		return err
	}
	text, _ := row[0].([]byte)
	since, _ := row[1].(int64)
	h, ok := purgatory.Hold{Announcement: true, Since: since}.Restart(now)
	dormant := row[2] == int64(1)
	if !ok || h.Since == since && !dormant {
		return nil
	}
	e, err := wire.ParseEvent(text)
	if err != nil {
		_, err = tx.removeHeld(number)
		return err
	}
	if dormant {
		*changes = append(*changes, host.HeldChange{Event: e, Status: host.StatusRevived})
	}
	return tx.schedule(number, h.Since, semantics.Due(e, h.Since, false), false)
}

// Release stores held events as Put would, oldest first, so that a newer version
// takes effect after an older one. With the rest of the transaction it happens as a
// whole or not at all. Events that are not held any more, or must
// not be stored, are reported so: a second call is harmless.
func (tx *Tx) Release(r host.Release, now int64) (host.ReleaseOutcome, error) {
	if err := tx.ready(); err != nil {
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	out, err := contained(tx, func() (host.ReleaseOutcome, error) { return tx.release(&r, now) })
	if err != nil {
		tx.failed = err
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	return out, nil
}

func (tx *Tx) release(r *host.Release, now int64) (out host.ReleaseOutcome, err error) {
	ids, err := semantics.InOrderOfRelease(r.IDs, func(id host.ID) (at int64, err error) {
		row, err := tx.w.conn.first(`SELECT created_at FROM held WHERE id = ?`, id[:])
		if row != nil {
			at, _ = row[0].(int64)
		}
		return at, err
	})
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		one, err := tx.releaseOne(id, now, &out)
		if err != nil {
			return out, err
		}
		out.Events = append(out.Events, one)
	}
	return out, tx.restart(r.ExtendDeadline, now, &out.Held)
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
		return host.Released{ID: id, Status: fate}, err
	}
	put, err := tx.put(e, now)
	if err != nil {
		return host.Released{}, err
	}
	fate := host.StatusReleased
	switch {
	case put.Reason == reasonDeleted:
		fate = host.StatusDeleted
	case put.Reason == reasonExpired:
		fate = host.StatusExpired
	case put.Reason == reasonNewer:
		fate = host.StatusReplaced
	case put.Code != host.Stored:
		fate = host.StatusStored
	}
	out.Removed = append(out.Removed, put.Removed...)
	out.Held = append(out.Held, host.HeldChange{Event: e, Status: fate})
	out.Held = append(out.Held, put.Held...)
	return host.Released{ID: id, Status: fate, Event: e, Seq: put.Seq}, nil
}

// absent says, as far as it is known, why an event is not held. Anybody may have
// asked for the deletion of an id that is nowhere.
func (tx *Tx) absent(id host.ID) (host.HeldStatus, error) {
	for _, where := range []struct {
		sql  string
		id   []byte
		fate host.HeldStatus
	}{
		{eventOfID, tx.s.keys.id(id), host.StatusStored},
		{`SELECT 1 FROM held_gone WHERE id = ?`, id[:], host.StatusExpired},
		{`SELECT 1 FROM deleted_id WHERE id = ? LIMIT 1`, id[:], host.StatusDeleted},
	} {
		row, err := tx.w.conn.first(where.sql, where.id)
		if err != nil {
			return 0, err
		}
		if row != nil {
			return where.fate, nil
		}
	}
	return host.StatusAbsent, nil
}

// supersede takes out of purgatory what a stored event makes pointless: itself, and
// older versions at its address. They would never be stored.
func (tx *Tx) supersede(e *host.Event) (changes []host.HeldChange, err error) {
	drop := func(fate host.HeldStatus, sql string, args ...driver.Value) error {
		found, err := tx.w.conn.numbers(sql, args...)
		for _, number := range found {
			if err == nil {
				err = tx.dropHeld(number, fate, &changes)
			}
		}
		return err
	}
	if err := drop(host.StatusReleased, `SELECT number FROM held WHERE id = ?`, e.ID[:]); err != nil {
		return nil, err
	}
	if a, ok := e.Address(); ok {
		err = drop(host.StatusReplaced, `
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
			err = tx.dropHeld(number, host.StatusDeleted, &changes)
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
			err = tx.dropHeld(number, host.StatusDeleted, &changes)
		}
	}
	return changes, err
}
