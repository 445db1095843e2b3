package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"time"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// Reasons of Hold, as clients see them, beside those of Put.
const (
	reasonGone = semantics.ReasonGone
)

// Hold puts the event into purgatory, or returns why it does not: it is stored, or a
// newer version is, its author deleted it, it has expired, or there is no room. One that
// is held already is answered as it was, and there is no second row.
//
// Of the announcements at an address the newest is held. A newer one starts the
// time again, and so does the same one from its author's client. Of other kinds
// with an address all versions are held.
//
// The event's id and signature must have been checked.
func (tx *Tx) Hold(e *host.Event, h host.HoldOptions, now int64) (host.Outcome, error) {
	if err := tx.ready(); err != nil {
		return host.Outcome{}, fmt.Errorf("hold event: %w", err)
	}
	if e.Kind.Class() == host.Ephemeral {
		return host.Outcome{}, fmt.Errorf("hold event: %w", ErrEphemeral)
	}
	began := time.Now()
	out, err := contained(tx, func() (host.Outcome, error) { return tx.hold(e, &h, now) })
	if err != nil {
		tx.failed = err
		tx.s.metrics.PutErrors.Inc()
		return host.Outcome{}, fmt.Errorf("hold event %s: %w", e.ID, err)
	}
	tx.s.metrics.Put[out.Code].Observe(time.Since(began).Seconds())
	return out, nil
}

func (tx *Tx) hold(e *host.Event, h *host.HoldOptions, now int64) (out host.Outcome, err error) {
	refuse := func(code host.Code, reason string) (host.Outcome, error) {
		out.Code, out.Reason = code, reason
		return out, nil
	}
	if at, ok := e.Expiration(); ok && at <= now {
		return refuse(host.Rejected, reasonExpired)
	}
	again, err := tx.holdAgain(e, h, now, &out)
	if err != nil || again {
		return out, err
	}
	code, reason, err := tx.unwanted(e)
	if err != nil || reason != "" {
		out.Code, out.Reason = code, reason
		return out, err
	}
	if e.Kind == host.KindAnnouncement && h.Synced {
		row, err := tx.w.conn.first(`SELECT 1 FROM held_gone WHERE id = ? AND until > ?`, e.ID[:], now)
		if err != nil {
			return out, err
		}
		if row != nil {
			return refuse(host.Rejected, reasonGone)
		}
	}
	older, newer, err := tx.heldVersion(e)
	if err != nil {
		return out, err
	}
	if newer {
		return refuse(host.Replaced, reasonNewer)
	}
	reason, err = tx.makeRoom(e, older, &out)
	if err != nil || reason != "" {
		out.Code, out.Reason = host.Rejected, reason
		return out, err
	}
	if older != nil {
		if err := tx.dropHeld(older.number, host.StatusReplaced, &out.Held); err != nil {
			return out, err
		}
	}
	if err := tx.insertHeld(e, h.Reason, now); err != nil {
		return out, err
	}
	out.Held = append(out.Held, host.HeldChange{Event: e, Status: host.StatusHeld, Synced: h.Synced})
	if err := tx.restart(h.ExtendDeadline, now, &out.Held); err != nil {
		return out, err
	}
	return refuse(host.Held, h.Reason)
}

// holdAgain answers an event that is held, and reports whether it is.
func (tx *Tx) holdAgain(e *host.Event, h *host.HoldOptions, now int64, out *host.Outcome) (bool, error) {
	if !tx.mayHold(e.Kind) {
		return false, nil
	}
	row, err := tx.w.conn.first(`SELECT number, reason FROM held WHERE id = ?`, e.ID[:])
	if err != nil || row == nil {
		return false, err
	}
	number, _ := row[0].(int64)
	reason, _ := row[1].(string)
	// Its time may be up, and the sweep be late.
	change, gone, err := tx.age(number, now)
	if err != nil {
		return false, err
	}
	if change != nil {
		out.Held = append(out.Held, *change)
	}
	if gone {
		return false, nil
	}
	out.Code, out.Reason = host.Held, reason
	if e.Kind == host.KindAnnouncement && !h.Synced {
		if err := tx.restartRow(number, now, &out.Held); err != nil {
			return false, err
		}
	}
	return true, tx.restart(h.ExtendDeadline, now, &out.Held)
}

// unwanted says why an event that is not held must not be, "" if it may.
func (tx *Tx) unwanted(e *host.Event) (code host.Code, reason string, err error) {
	c := tx.w.conn
	row, err := c.first(`
		SELECT (SELECT 1 FROM event_id WHERE key = ?1),
			?4 <> 5 AND (SELECT 1 FROM deleted_id WHERE id = ?2 AND pubkey = ?3)`, tx.s.keys.id(e.ID), e.ID[:], e.PubKey[:], int64(e.Kind))
	switch {
	case err != nil:
		return 0, "", err
	case row[0] != nil:
		return host.Duplicate, reasonHave, nil
	case row[1] == int64(1):
		return host.Rejected, reasonDeleted, nil
	}
	a, ok := e.Address()
	if !ok {
		return 0, "", nil
	}
	row, err = c.first(`
		SELECT a.created_at, a.id, d.until
		FROM (SELECT 1) LEFT JOIN address a ON a.key = ?1 LEFT JOIN deleted_address d ON d.key = ?1`, tx.s.keys.address(a))
	if err != nil {
		return 0, "", err
	}
	if at, ok := row[0].(int64); ok {
		if id, _ := row[1].([]byte); at > e.CreatedAt || at == e.CreatedAt && bytes.Compare(id, e.ID[:]) < 0 {
			return host.Replaced, reasonNewer, nil
		}
	}
	if until, ok := row[2].(int64); ok && e.CreatedAt <= until {
		return host.Rejected, reasonDeleted, nil
	}
	return 0, "", nil
}

// heldRow is what is asked of a row of table held.
type heldRow struct {
	number int64
	size   int64 // of its json
}

// heldVersion returns the held announcement that e replaces, nil if there is none,
// and whether the held one is newer than e.
func (tx *Tx) heldVersion(e *host.Event) (older *heldRow, newer bool, err error) {
	a, ok := e.Address()
	if !ok || e.Kind != host.KindAnnouncement {
		return nil, false, nil
	}
	row, err := tx.w.conn.first(`SELECT number, created_at, id, length(json) FROM held INDEXED BY held_address WHERE address = ?`, tx.s.keys.address(a))
	if err != nil || row == nil {
		return nil, false, err
	}
	at, _ := row[1].(int64)
	id, _ := row[2].([]byte)
	if at > e.CreatedAt || at == e.CreatedAt && bytes.Compare(id, e.ID[:]) < 0 {
		return nil, true, nil
	}
	older = new(heldRow)
	older.number, _ = row[0].(int64)
	older.size, _ = row[3].(int64)
	return older, false, nil
}

func (tx *Tx) insertHeld(e *host.Event, reason string, now int64) error {
	c := tx.w.conn
	var address driver.Value
	if a, ok := e.Address(); ok {
		address = tx.s.keys.address(a)
	}
	row, err := c.first(`
		INSERT INTO held (id, pubkey, created_at, kind, address, since, due, dormant, reason, json)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, ?) RETURNING number`,
		e.ID[:], e.PubKey[:], e.CreatedAt, int64(e.Kind), address, now, semantics.Due(e, now, false), reason, e.JSON)
	if err != nil {
		return err
	}
	number := row[0].(int64)
	tx.w.rows = tx.s.keys.heldPostings(tx.w.rows[:0], e, number)
	for _, r := range tx.w.rows {
		if err := c.exec(`INSERT INTO held_posting VALUES (?, ?, ?, ?)`, r.key, r.sortKey, r.kind, number); err != nil {
			return err
		}
	}
	if e.Kind == host.KindAnnouncement {
		if err := c.exec(`DELETE FROM held_gone WHERE id = ?`, e.ID[:]); err != nil {
			return err
		}
	}
	tx.w.heldKinds[e.Kind] = struct{}{}
	tx.work++
	tx.holdChanged = true
	tx.total.Held++
	tx.total.HeldBytes += int64(len(e.JSON))
	return nil
}

// heldPostings appends the index rows of a held event: those of a stored one, but
// for that of its kind alone.
func (k *keyring) heldPostings(rows []posting, e *host.Event, number int64) []posting {
	rows = k.postings(rows, e, number)
	n := 0
	for _, r := range rows {
		if !bytes.Equal(r.key, keyKind) {
			r.kind = int64(e.Kind)
			rows[n] = r
			n++
		}
	}
	return rows[:n]
}

// mayHold reports whether purgatory may have events of this kind.
func (tx *Tx) mayHold(k host.Kind) bool {
	if tx.total.Held == 0 {
		return false
	}
	_, ok := tx.w.heldKinds[k]
	return ok
}

func (w *writer) loadHeld() error {
	return w.conn.each(context.Background(), `SELECT DISTINCT kind FROM held_posting WHERE key = ?`, list(keyTime), func(row []driver.Value) error {
		kind, _ := row[0].(int64)
		w.heldKinds[host.Kind(kind)] = struct{}{}
		return nil
	})
}

// dropHeld takes a row away and notes its fate.
func (tx *Tx) dropHeld(number int64, fate host.HeldStatus, changes *[]host.HeldChange) error {
	e, err := tx.removeHeld(number)
	if err == nil && e != nil {
		*changes = append(*changes, host.HeldChange{Event: e, Status: fate})
	}
	return err
}

// removeHeld takes a row and its index rows away and returns the event, nil if it
// is not here or cannot be read any more.
func (tx *Tx) removeHeld(number int64) (*host.Event, error) {
	c := tx.w.conn
	row, err := c.first(`SELECT json FROM held WHERE number = ?`, number)
	if err != nil || row == nil {
		return nil, err
	}
	text, _ := row[0].([]byte)
	e, err := wire.ParseEvent(text)
	if err != nil {
		// One damaged row must not stop every batch that touches it.
		tx.s.log.Error("remove damaged event from purgatory", "number", number, "err", err)
		e = nil
		err = c.exec(`DELETE FROM held_posting WHERE held = ?`, number)
	} else {
		tx.w.rows = tx.s.keys.heldPostings(tx.w.rows[:0], e, number)
		for _, r := range tx.w.rows {
			if err = c.exec(`DELETE FROM held_posting WHERE key = ? AND place = ?`, r.key, r.sortKey); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	tx.work++
	tx.holdChanged = true
	tx.total.Held--
	tx.total.HeldBytes -= int64(len(text))
	return e, c.exec(`DELETE FROM held WHERE number = ?`, number)
}

// numbers returns the first column of all rows.
func (c *conn) numbers(sql string, args ...driver.Value) (found []int64, err error) {
	err = c.each(context.Background(), sql, args, func(row []driver.Value) error {
		n, _ := row[0].(int64)
		found = append(found, n)
		return nil
	})
	return found, err
}

// nextHeld returns when something in purgatory is due, noExpiry if never.
func (c *conn) nextHeld() (int64, error) {
	row, err := c.first(`
		SELECT min(
			ifnull((SELECT min(due) FROM held INDEXED BY held_due WHERE dormant = 0), ?1),
			ifnull((SELECT min(due) FROM held INDEXED BY held_due WHERE dormant = 1), ?1),
			ifnull((SELECT min(until) FROM held_gone), ?1))`, int64(math.MaxInt64))
	if err != nil {
		return 0, err
	}
	return row[0].(int64), nil
}

// NextHeld returns when something in purgatory is due for [Tx.SweepHeld], and false
// if nothing ever is. It does not touch the disk.
func (s *Store) NextHeld() (int64, bool) {
	at := s.heldDue.Load()
	return at, at != noExpiry
}

// HeldLimits bound purgatory.
type HeldLimits = semantics.HeldLimits

// maxEvicted is how many events give way to one.
const maxEvicted = semantics.MaxEvicted

// makeRoom makes sure that e fits, and returns why it does not. Announcements that
// are dormant, whose git data did not come in time, give way to it: first those
// that would go first. What e replaces counts as gone.
func (tx *Tx) makeRoom(e *host.Event, older *heldRow, out *host.Outcome) (reason string, err error) {
	limit := tx.s.heldLimits
	var gain heldRow
	if older != nil {
		gain = *older
	}
	c := tx.w.conn
	evicted := 0
	evict := func(number int64) (bool, error) {
		if number == 0 || evicted == maxEvicted {
			return false, nil
		}
		evicted++
		return true, tx.dropHeld(number, host.StatusExpired, &out.Held)
	}
	if older == nil {
		// With an older one, there are as many of the author as before.
		n, err := c.number(context.Background(), `SELECT count(*) FROM held INDEXED BY held_author WHERE pubkey = ?`, e.PubKey[:])
		if err != nil {
			return "", err
		}
		if n >= limit.ByAuthor {
			const sql = `SELECT number FROM held INDEXED BY held_author WHERE pubkey = ? AND dormant = 1 ORDER BY due LIMIT 1`
			number, err := c.number(context.Background(), sql, e.PubKey[:])
			if err != nil {
				return "", err
			}
			if ok, err := evict(number); err != nil || !ok {
				return fmt.Sprintf(semantics.ReasonOwnFull, n), err
			}
		}
	}
	for {
		full := older == nil && tx.total.Held >= limit.Events
		if !full && tx.total.HeldBytes-gain.size+int64(len(e.JSON)) <= limit.Bytes {
			return "", nil
		}
		const sql = `SELECT number FROM held INDEXED BY held_due WHERE dormant = 1 AND number <> ? ORDER BY due LIMIT 1`
		number, err := c.number(context.Background(), sql, gain.number)
		if err != nil {
			return "", err
		}
		if ok, err := evict(number); err != nil || !ok {
			return semantics.ReasonFull, err
		}
	}
}
