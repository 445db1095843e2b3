package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// heldRow is a row of table held.
type heldRow struct {
	seq, createdAt, since, due int64
	id, json                   []byte
	dormant                    bool
	reason                     string
}

func (r *heldRow) size() int64 { return int64(len(r.json)) }

func (tx *Tx) heldRows(where string, args ...any) ([]*heldRow, error) {
	ctx, cancel := call()
	defer cancel()
	rows, err := tx.s.conn.Query(ctx, `SELECT seq, created_at, since, due, id, json, dormant, reason FROM held WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*heldRow, error) {
		r := new(heldRow)
		var reason []byte
		err := row.Scan(&r.seq, &r.createdAt, &r.since, &r.due, &r.id, &r.json, &r.dormant, &reason)
		r.reason = string(reason)
		return r, err
	})
}

// SweepHeld expires events in purgatory: announcements become dormant, and events whose
// time is over are removed. It looks at a few rows, in the order of limit; when there are
// more, [Store.NextHeld] stays in the past.
func (tx *Tx) SweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			changes, err = tx.sweepHeld(now, limit)
			return err
		})
		if err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sweep purgatory: %w", err)
	}
	if tx.others > 0 {
		tx.changes.held(changes)
	}
	return changes, nil
}

func (tx *Tx) sweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	for _, dormant := range []bool{false, true} {
		rows, err := tx.heldRows(`dormant = $1 AND due <= $2 ORDER BY due, seq LIMIT $3`, dormant, now, limit)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if _, err := tx.age(r, now, &changes); err != nil {
				return nil, err
			}
		}
	}
	n, err := tx.exec(`DELETE FROM held_gone WHERE id IN (SELECT id FROM held_gone WHERE until <= $1 LIMIT $2)`, now, limit)
	if n > 0 {
		tx.holdChanged = true
	}
	return changes, err
}

// age brings a row to the phase in which it is now, and reports whether it has gone.
func (tx *Tx) age(r *heldRow, now int64, changes *[]host.HeldChange) (gone bool, err error) {
	if r.due > now {
		return false, nil
	}
	e, err := wire.ParseEvent(r.json)
	if err != nil {
		_, err = tx.deleteReturning(held, `DELETE FROM held WHERE seq = $1 RETURNING seq, json`, r.seq)
		return true, err
	}
	h := purgatory.Hold{Announcement: e.Kind == host.KindAnnouncement, Since: r.since}
	phase := h.Phase(now)
	if expires, ok := e.Expiration(); ok && expires <= now {
		phase = purgatory.Forgotten
	}
	switch phase {
	case purgatory.Gone, purgatory.Forgotten:
		dropped, err := tx.dropHeld(host.StatusExpired, `seq = $1`, r.seq)
		if err != nil {
			return false, err
		}
		*changes = append(*changes, dropped...)
		if until, ok := h.Next(now); ok && phase == purgatory.Gone {
			_, err = tx.exec(`INSERT INTO held_gone VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET until = excluded.until`, e.ID[:], until)
		}
		return true, err
	case purgatory.Dormant:
		if !r.dormant {
			*changes = append(*changes, host.HeldChange{Event: e, Status: host.StatusDormant})
		}
		r.dormant = true
	}
	return false, tx.schedule(r, e)
}

// schedule writes since, dormant and what follows from them.
func (tx *Tx) schedule(r *heldRow, e *host.Event) error {
	tx.holdChanged = true
	tx.work++
	r.due = semantics.Due(e, r.since, r.dormant)
	_, err := tx.exec(`UPDATE held SET since = $2, due = $3, dormant = $4 WHERE seq = $1`, r.seq, r.since, r.due, r.dormant)
	return err
}

// restart starts the time of the held announcements at these addresses again.
func (tx *Tx) restart(addresses []host.Address, now int64, changes *[]host.HeldChange) error {
	if tx.total.Held == 0 {
		return nil
	}
	for _, a := range addresses {
		if a.Kind != host.KindAnnouncement {
			continue
		}
		rows, err := tx.heldRows(`address = $1`, tx.s.keys.key(nameAddress, a.String()))
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := tx.restartRow(r, now, changes); err != nil {
				return err
			}
		}
	}
	return nil
}

// restartRow starts the time of an announcement again, if it is not too late.
func (tx *Tx) restartRow(r *heldRow, now int64, changes *[]host.HeldChange) error {
	h, ok := purgatory.Hold{Announcement: true, Since: r.since}.Restart(now)
	if !ok || h.Since == r.since && !r.dormant {
		return nil
	}
	e, err := wire.ParseEvent(r.json)
	if err != nil {
		_, err = tx.deleteReturning(held, `DELETE FROM held WHERE seq = $1 RETURNING seq, json`, r.seq)
		return err
	}
	if r.dormant {
		*changes = append(*changes, host.HeldChange{Event: e, Status: host.StatusRevived})
	}
	r.since, r.dormant = h.Since, false
	return tx.schedule(r, e)
}
