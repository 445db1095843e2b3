package store

import (
	"fmt"

	"talon/host"
	"talon/host/grasp"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// SweepHeld lets time pass in purgatory: announcements become dormant, and what has
// waited in vain goes. It looks at a few rows, in the order of limit; when there are
// more, [Store.NextHeld] stays in the past.
func (tx *Tx) SweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("sweep purgatory: %w", err)
	}
	changes, err = tx.sweepHeld(now, limit)
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
		tx.timed = true
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
	h := grasp.Hold{Announcement: e.Kind == kindAnnouncement, Since: since}
	phase := h.Phase(now)
	if expires, ok := e.Expiration(); ok && expires <= now {
		phase = grasp.Forgotten
	}
	switch phase {
	case grasp.Gone, grasp.Forgotten:
		if _, err := tx.removeHeld(number); err != nil {
			return nil, false, err
		}
		if until, ok := h.Next(now); ok && phase == grasp.Gone {
			err = c.exec(`INSERT OR REPLACE INTO held_gone VALUES (?, ?)`, e.ID[:], until)
		}
		return &host.HeldChange{Event: e, Fate: host.FateExpired}, true, err
	case grasp.Dormant:
		if !dormant {
			change = &host.HeldChange{Event: e, Fate: host.FateDormant}
		}
		dormant = true
	}
	return change, false, tx.schedule(number, since, semantics.Due(e, since, dormant), dormant)
}

func (tx *Tx) schedule(number, since, at int64, dormant bool) error {
	tx.timed = true
	flag := int64(0)
	if dormant {
		flag = 1
	}
	return tx.w.conn.exec(`UPDATE held SET since = ?, due = ?, dormant = ? WHERE number = ?`, since, at, flag, number)
}

// restart starts the time of the held announcements at these addresses again.
func (tx *Tx) restart(addresses []host.Address, now int64, changes *[]host.HeldChange) error {
	if !tx.mayHold(kindAnnouncement) {
		return nil
	}
	for _, a := range addresses {
		if a.Kind != kindAnnouncement {
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
	h, ok := grasp.Hold{Announcement: true, Since: since}.Restart(now)
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
		*changes = append(*changes, host.HeldChange{Event: e, Fate: host.FateRevived})
	}
	return tx.schedule(number, h.Since, semantics.Due(e, h.Since, false), false)
}
