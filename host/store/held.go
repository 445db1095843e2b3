package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"math"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
)

// The rows of purgatory, as package purgatory reads and writes them. Its rules are there.

// HeldLimits bound purgatory.
type HeldLimits = semantics.HeldLimits

// Hold puts the event into purgatory, or returns why it does not: see [purgatory.Hold].
//
// The event's id and signature must have been checked.
func (tx *Tx) Hold(e *host.Event, h host.HoldOptions, now int64) (host.Outcome, error) {
	return tx.one("hold event", e, func() (host.Outcome, error) { return purgatory.Hold(rows{tx}, &tx.s.heldLimits, e, &h, now) })
}

// Release stores held events, oldest first: see [purgatory.Release]. With the rest of the
// transaction it happens as a whole or not at all.
func (tx *Tx) Release(r host.Release, now int64) (host.ReleaseOutcome, error) {
	if err := tx.ready(); err != nil {
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	out, err := contained(tx, func() (host.ReleaseOutcome, error) { return purgatory.Release(rows{tx}, &r, now) })
	if err != nil {
		tx.failed = err
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	return out, nil
}

// SweepHeld expires events in purgatory: see [purgatory.Sweep]. It looks at a few rows, in the
// order of limit; when there are more, [Store.NextHeld] stays in the past.
func (tx *Tx) SweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("sweep purgatory: %w", err)
	}
	changes, err = contained(tx, func() ([]host.HeldChange, error) { return purgatory.Sweep(rows{tx}, now, limit) })
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("sweep purgatory: %w", err)
	}
	return changes, nil
}

// MayHold is false if no event of this kind is held.
func (r rows) MayHold(k host.Kind) bool {
	if r.tx.total.Held == 0 {
		return false
	}
	_, ok := r.tx.w.heldKinds[k]
	return ok
}

func (w *writer) loadHeld() error {
	return w.conn.each(context.Background(), `SELECT DISTINCT kind FROM held_posting WHERE key = ?`, list(keyTime), func(row []driver.Value) error {
		kind, _ := row[0].(int64)
		w.heldKinds[host.Kind(kind)] = struct{}{}
		return nil
	})
}

// HeldTotal returns how many events are held, and the bytes of their JSON.
func (r rows) HeldTotal() (events, bytes int64) { return r.tx.total.Held, r.tx.total.HeldBytes }

// selectHeld reads the columns of a [purgatory.Row].
const selectHeld = `SELECT number, id, pubkey, kind, created_at, json, since, due, dormant, reason, cause, parent, network, known, audience, synced, wake FROM held `

func heldRow(row []driver.Value) *purgatory.Row {
	r := new(purgatory.Row)
	r.Number, _ = row[0].(int64)
	id, _ := row[1].([]byte)
	copy(r.ID[:], id)
	pubkey, _ := row[2].([]byte)
	copy(r.PubKey[:], pubkey)
	kind, _ := row[3].(int64)
	r.Kind = host.Kind(kind)
	r.CreatedAt, _ = row[4].(int64)
	r.JSON, _ = row[5].([]byte)
	r.Since, _ = row[6].(int64)
	r.Due, _ = row[7].(int64)
	r.Dormant = row[8] == int64(1)
	r.Reason, _ = row[9].(string)
	cause, _ := row[10].(int64)
	r.Cause = purgatory.Cause(cause)
	r.Parent, _ = row[11].([]byte)
	r.Network, _ = row[12].([]byte)
	r.Known = row[13] == int64(1)
	var err error
	if r.Audience, err = audienceOf(row[14]); err != nil {
		r.Audience = host.Nobody
	}
	r.Synced = row[15] == int64(1)
	r.Wake, _ = row[16].([]byte)
	return r
}

// held appends the rows that a statement selects.
func (r rows) held(found []*purgatory.Row, sql string, args ...driver.Value) ([]*purgatory.Row, error) {
	err := r.tx.w.conn.each(context.Background(), sql, args, func(row []driver.Value) error {
		found = append(found, heldRow(row))
		return nil
	})
	return found, err
}

// firstHeld returns the first row that a statement selects, nil for none.
func (r rows) firstHeld(sql string, args ...driver.Value) (*purgatory.Row, error) {
	row, err := r.tx.w.conn.first(sql, args...)
	if err != nil || row == nil {
		return nil, err
	}
	return heldRow(row), nil
}

// Held returns the row of an event, nil if it is not held.
func (r rows) Held(id host.ID) (*purgatory.Row, error) {
	return r.firstHeld(selectHeld+`WHERE id = ?`, id[:])
}

// HeldByID returns the rows of the events among these ids.
func (r rows) HeldByID(ids []host.ID) (found []*purgatory.Row, err error) {
	for _, id := range ids {
		if found, err = r.held(found, selectHeld+`INDEXED BY held_id WHERE id = ?`, id[:]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// HeldAt returns the rows at these addresses that are not newer than until.
func (r rows) HeldAt(addresses []host.Address, until int64) (found []*purgatory.Row, err error) {
	for _, a := range addresses {
		if !r.MayHold(a.Kind) {
			continue
		}
		key := r.tx.s.keys.address(a)
		if found, err = r.held(found, selectHeld+`INDEXED BY held_address WHERE address = ? AND created_at <= ?`, key, until); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// HeldDue returns rows that are dormant, or are not, and due by now: the first limit.
func (r rows) HeldDue(dormant bool, now int64, limit int) ([]*purgatory.Row, error) {
	const sql = selectHeld + `INDEXED BY held_due WHERE dormant = ? AND due <= ? ORDER BY due LIMIT ?`
	return r.held(nil, sql, bit(dormant), now, int64(limit))
}

// KeyOf returns the key under which rows depend on an event: of its address, or its id.
func (r rows) KeyOf(e *host.Event) []byte {
	if a, ok := e.Address(); ok {
		return r.tx.s.keys.address(a)
	}
	return e.ID[:]
}

// HeldParent returns the first row that has this key and depends on nothing, nil for none.
func (r rows) HeldParent(key []byte) (*purgatory.Row, error) {
	if len(key) == len(host.ID{}) {
		return r.firstHeld(selectHeld+`WHERE id = ? AND parent IS NULL`, key)
	}
	return r.firstHeld(selectHeld+`INDEXED BY held_address WHERE address = ? AND parent IS NULL LIMIT 1`, key)
}

// Dependents returns the rows that depend on this key, in the order in which they came.
func (r rows) Dependents(key []byte) ([]*purgatory.Row, error) {
	return r.held(nil, selectHeld+`INDEXED BY held_parent WHERE parent = ? ORDER BY number`, key)
}

// CountDependents returns how many rows depend on this key, and how many of them came from a
// network.
func (r rows) CountDependents(key, network []byte) (all, ofNetwork int64, err error) {
	row, err := r.tx.w.conn.first(`SELECT count(*), count(*) FILTER (WHERE network = ?2) FROM held INDEXED BY held_parent WHERE parent = ?1`, key, blob(network))
	if err != nil {
		return 0, 0, err
	}
	all, _ = row[0].(int64)
	ofNetwork, _ = row[1].(int64)
	return all, ofNetwork, nil
}

// Weight returns how many rows a class has under a key, and the bytes of their JSON.
func (r rows) Weight(c purgatory.Class, key []byte) (w purgatory.Weight, err error) {
	row, err := r.tx.w.conn.first(`SELECT events, bytes FROM held_weight WHERE class = ? AND key = ?`, int64(c), key)
	if row != nil {
		w.Events, _ = row[0].(int64)
		w.Bytes, _ = row[1].(int64)
	}
	return w, err
}

// Heaviest returns the key with the most events, or bytes, of a class, and its weight.
func (r rows) Heaviest(c purgatory.Class, byBytes bool) (key []byte, w purgatory.Weight, err error) {
	sql := `SELECT key, events, bytes FROM held_weight INDEXED BY held_weight_events WHERE class = ? ORDER BY events DESC, key DESC LIMIT 1`
	if byBytes {
		sql = `SELECT key, events, bytes FROM held_weight INDEXED BY held_weight_bytes WHERE class = ? ORDER BY bytes DESC, key DESC LIMIT 1`
	}
	row, err := r.tx.w.conn.first(sql, int64(c))
	if row != nil {
		key, _ = row[0].([]byte)
		w.Events, _ = row[1].(int64)
		w.Bytes, _ = row[2].(int64)
	}
	return key, w, err
}

// NewestOf returns the row that came last under a key of a class, nil for none. It leaves one
// row out.
func (r rows) NewestOf(c purgatory.Class, key []byte, except int64) (*purgatory.Row, error) {
	where := `INDEXED BY held_network WHERE network = ?1`
	switch c &^ (purgatory.KnownPart | purgatory.VerdictPart) {
	case purgatory.OfAuthor:
		where = `INDEXED BY held_author WHERE pubkey = ?1`
	case purgatory.OfDependentsNetwork:
		where += ` AND parent IS NOT NULL`
	}
	return r.firstHeld(selectHeld+where+` AND known = ?2 AND (cause = 2) = ?3 AND number <> ?4 ORDER BY number DESC LIMIT 1`,
		key, bit(c&purgatory.KnownPart != 0), bit(c&purgatory.VerdictPart != 0), except)
}

// FirstDependent returns the row of a stranger that depends on any key and is due first, nil for
// none. It leaves one row out.
func (r rows) FirstDependent(except int64) (*purgatory.Row, error) {
	return r.firstHeld(selectHeld+`INDEXED BY held_dependent WHERE parent IS NOT NULL AND known = 0 AND number <> ? ORDER BY due LIMIT 1`, except)
}

// FirstDormant returns the dormant row that is due first, nil for none. It looks at rows of the
// author, or of all strangers for nil, and leaves one row out.
func (r rows) FirstDormant(author *host.PubKey, except int64) (*purgatory.Row, error) {
	if author != nil {
		const sql = selectHeld + `INDEXED BY held_author WHERE pubkey = ? AND dormant = 1 AND number <> ? ORDER BY due LIMIT 1`
		return r.firstHeld(sql, author[:], except)
	}
	return r.firstHeld(selectHeld+`INDEXED BY held_due WHERE dormant = 1 AND known = 0 AND number <> ? ORDER BY due LIMIT 1`, except)
}

// InsertHeld adds the row of an event with its index rows.
func (r rows) InsertHeld(e *host.Event, k *semantics.Known, h *purgatory.Row) error {
	tx, c := r.tx, r.tx.w.conn
	row, err := c.first(`
		INSERT INTO held (id, pubkey, created_at, kind, address, since, due, dormant, reason, json, cause, parent, network, known, audience, synced, wake)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number`,
		e.ID[:], e.PubKey[:], e.CreatedAt, int64(e.Kind), blob(k.AddressKey), h.Since, h.Due, bit(h.Dormant), h.Reason, e.JSON, int64(h.Cause), blob(h.Parent), blob(h.Network), bit(h.Known), blob(e.Audience.Encode()), bit(h.Synced), blob(h.Wake))
	if err != nil {
		return err
	}
	number := row[0].(int64)
	tx.w.rows = tx.s.keys.heldPostings(tx.w.rows[:0], e, number)
	for _, p := range tx.w.rows {
		if err := c.exec(`INSERT INTO held_posting VALUES (?, ?, ?, ?)`, p.key, p.sortKey, p.kind, number); err != nil {
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
// for that of its kind alone and for those of its words.
func (k *keyring) heldPostings(rows []posting, e *host.Event, number int64) []posting {
	if e.Audience != nil {
		e = e.For(nil) // purgatory is nobody's to read
	}
	rows = k.plainPostings(rows, e, number)
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

// UpdateHeld writes Since, Due, Dormant and Wake of a row.
func (r rows) UpdateHeld(h *purgatory.Row) error {
	r.tx.holdChanged = true
	return r.tx.w.conn.exec(`UPDATE held SET since = ?, due = ?, dormant = ?, wake = ? WHERE number = ?`, h.Since, h.Due, bit(h.Dormant), blob(h.Wake), h.Number)
}

// RemoveHeld removes rows with their index rows.
func (r rows) RemoveHeld(list []*purgatory.Row) error {
	for _, h := range list {
		if err := r.removeHeld(h); err != nil {
			return err
		}
	}
	return nil
}

func (r rows) removeHeld(h *purgatory.Row) error {
	tx, c := r.tx, r.tx.w.conn
	if e := h.Event(); e == nil {
		tx.s.log.Error("remove damaged event from purgatory", "number", h.Number, "id", h.ID)
		if err := c.exec(`DELETE FROM held_posting WHERE held = ?`, h.Number); err != nil {
			return err
		}
	} else {
		tx.w.rows = tx.s.keys.heldPostings(tx.w.rows[:0], e, h.Number)
		for _, p := range tx.w.rows {
			if err := c.exec(`DELETE FROM held_posting WHERE key = ? AND place = ?`, p.key, p.sortKey); err != nil {
				return err
			}
		}
	}
	tx.work++
	tx.holdChanged = true
	tx.total.Held--
	tx.total.HeldBytes -= int64(len(h.JSON))
	return c.exec(`DELETE FROM held WHERE number = ?`, h.Number)
}

// Gone returns until when an announcement is not taken from sync, and false if it may be.
func (r rows) Gone(id host.ID) (until int64, ok bool, err error) {
	row, err := r.tx.w.conn.first(`SELECT until FROM held_gone WHERE id = ?`, id[:])
	if err != nil || row == nil {
		return 0, false, err
	}
	until, _ = row[0].(int64)
	return until, true, nil
}

// AddGone notes that an announcement is not taken from sync until a time.
func (r rows) AddGone(id host.ID, until int64) error {
	r.tx.holdChanged = true
	return r.tx.w.conn.exec(`INSERT OR REPLACE INTO held_gone VALUES (?, ?)`, id[:], until)
}

// RemoveGone removes what AddGone noted.
func (r rows) RemoveGone(id host.ID) error {
	r.tx.holdChanged = true
	return r.tx.w.conn.exec(`DELETE FROM held_gone WHERE id = ?`, id[:])
}

// RemoveGoneBefore removes at most limit notes whose time is over by now.
func (r rows) RemoveGoneBefore(now int64, limit int) error {
	const sql = `DELETE FROM held_gone WHERE id IN (SELECT id FROM held_gone INDEXED BY held_gone_until WHERE until <= ? LIMIT ?)`
	n, err := r.tx.w.conn.change(sql, now, int64(limit))
	if n > 0 {
		r.tx.holdChanged = true
	}
	return err
}

// Traces returns what the database has of an event that is not held.
func (r rows) Traces(id host.ID) (t purgatory.Traces, err error) {
	const sql = `
		SELECT (SELECT 1 FROM event_id WHERE key = ?1), (SELECT 1 FROM held_gone WHERE id = ?2), (SELECT 1 FROM deleted_id WHERE id = ?2)`
	row, err := r.tx.w.conn.first(sql, r.tx.s.keys.id(id), id[:])
	if err == nil {
		t.Stored, t.Gone, t.Deleted = row[0] != nil, row[1] != nil, row[2] != nil
	}
	return t, err
}

// blob returns NULL for nil.
func blob(b []byte) driver.Value {
	if b == nil {
		return nil
	}
	return b
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
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
