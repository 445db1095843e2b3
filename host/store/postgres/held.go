package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
)

// The rows of purgatory, as package purgatory reads and writes them. Its rules are there.

// Hold puts the event into purgatory, or returns why it does not: see [purgatory.Hold].
//
// The event's id and signature must have been checked.
func (tx *Tx) Hold(e *host.Event, h host.HoldOptions, now int64) (host.Outcome, error) {
	return tx.one("hold event", e, func() (host.Outcome, error) { return purgatory.Hold(rows{tx}, &tx.s.limits, e, &h, now) })
}

// Release stores held events, oldest first: see [purgatory.Release]. With the rest of the
// transaction it happens as a whole or not at all.
func (tx *Tx) Release(r host.Release, now int64) (out host.ReleaseOutcome, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			out, err = purgatory.Release(rows{tx}, &r, now)
			return err
		})
		if err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return host.ReleaseOutcome{}, fmt.Errorf("release events: %w", err)
	}
	if tx.others > 0 {
		tx.changes.released(out.Events)
		tx.changes.removed(out.Removed)
		tx.changes.held(out.Held)
	}
	return out, nil
}

// SweepHeld expires events in purgatory: see [purgatory.Sweep]. It looks at a few rows, in the
// order of limit; when there are more, [Store.NextHeld] stays in the past.
func (tx *Tx) SweepHeld(now int64, limit int) (changes []host.HeldChange, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			changes, err = purgatory.Sweep(rows{tx}, now, limit)
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

// MayHold is false if no event of this kind is held.
func (r rows) MayHold(host.Kind) bool { return r.tx.total.Held > 0 }

// HeldTotal returns how many events are held, and the bytes of their JSON.
func (r rows) HeldTotal() (events, bytes int64) { return r.tx.total.Held, r.tx.total.HeldBytes }

// held returns the rows for which a condition holds.
func (r rows) held(where string, args ...any) ([]*purgatory.Row, error) {
	ctx, cancel := call()
	defer cancel()
	const columns = `SELECT seq, id, pubkey, kind, created_at, json, since, due, dormant, reason, cause, parent, network, known, audience, synced, wake FROM held WHERE `
	found, err := r.tx.s.conn.Query(ctx, columns+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (*purgatory.Row, error) {
		h := new(purgatory.Row)
		var id, pubkey, reason, audience []byte
		var kind int32
		var cause int16
		err := row.Scan(&h.Number, &id, &pubkey, &kind, &h.CreatedAt, &h.JSON, &h.Since, &h.Due, &h.Dormant, &reason, &cause, &h.Parent, &h.Network, &h.Known, &audience, &h.Synced, &h.Wake)
		h.Audience = audienceOf(audience)
		copy(h.ID[:], id)
		copy(h.PubKey[:], pubkey)
		h.Kind, h.Reason, h.Cause = host.Kind(kind), string(reason), purgatory.Cause(cause)
		return h, err
	})
}

// firstHeld returns the first row for which a condition holds, nil for none.
func (r rows) firstHeld(where string, args ...any) (*purgatory.Row, error) {
	found, err := r.held(where, args...)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// Held returns the row of an event, nil if it is not held.
func (r rows) Held(id host.ID) (*purgatory.Row, error) { return r.firstHeld(`id = $1`, id[:]) }

// HeldByID returns the rows of the events among these ids.
func (r rows) HeldByID(ids []host.ID) ([]*purgatory.Row, error) {
	return r.held(`id = ANY($1) ORDER BY seq`, idBytes(ids))
}

// HeldAt returns the rows at these addresses that are not newer than until.
func (r rows) HeldAt(addresses []host.Address, until int64) ([]*purgatory.Row, error) {
	return r.held(`address = ANY($1) AND created_at <= $2 ORDER BY seq`, r.tx.s.keys.addresses(addresses), until)
}

// HeldDue returns rows that are dormant, or are not, and due by now: the first limit.
func (r rows) HeldDue(dormant bool, now int64, limit int) ([]*purgatory.Row, error) {
	return r.held(`dormant = $1 AND due <= $2 ORDER BY due, seq LIMIT $3`, dormant, now, limit)
}

// KeyOf returns the key under which rows depend on an event: of its address, or its id.
func (r rows) KeyOf(e *host.Event) []byte {
	if key := r.tx.s.keys.address(e); key != nil {
		return key
	}
	return e.ID[:]
}

// HeldParent returns the first row that has this key and depends on nothing, nil for none.
func (r rows) HeldParent(key []byte) (*purgatory.Row, error) {
	if len(key) == len(host.ID{}) {
		return r.firstHeld(`id = $1 AND parent IS NULL`, key)
	}
	return r.firstHeld(`address = $1 AND parent IS NULL ORDER BY seq LIMIT 1`, key)
}

// Dependents returns the rows that depend on this key, in the order in which they came.
func (r rows) Dependents(key []byte) ([]*purgatory.Row, error) {
	return r.held(`parent = $1 ORDER BY seq`, key)
}

// CountDependents returns how many rows depend on this key, and how many of them came from a
// network.
func (r rows) CountDependents(key, network []byte) (all, ofNetwork int64, err error) {
	const sql = `SELECT count(*), count(*) FILTER (WHERE network = $2) FROM held WHERE parent = $1`
	_, err = r.tx.row(sql, []any{key, network}, &all, &ofNetwork)
	return all, ofNetwork, err
}

// Weight returns how many rows a class has under a key, and the bytes of their JSON.
func (r rows) Weight(c purgatory.Class, key []byte) (w purgatory.Weight, err error) {
	_, err = r.tx.row(`SELECT events, bytes FROM held_weight WHERE class = $1 AND key = $2`, []any{int16(c), key}, &w.Events, &w.Bytes)
	return w, err
}

// Heaviest returns the key with the most events, or bytes, of a class, and its weight.
func (r rows) Heaviest(c purgatory.Class, byBytes bool) (key []byte, w purgatory.Weight, err error) {
	column := "events"
	if byBytes {
		column = "bytes"
	}
	_, err = r.tx.row(`SELECT key, events, bytes FROM held_weight WHERE class = $1 ORDER BY class DESC, `+column+` DESC, key DESC LIMIT 1`, []any{int16(c)}, &key, &w.Events, &w.Bytes)
	return key, w, err
}

// NewestOf returns the row that came last under a key of a class, nil for none. It leaves one
// row out.
func (r rows) NewestOf(c purgatory.Class, key []byte, except int64) (*purgatory.Row, error) {
	where := `network = $1`
	switch c &^ (purgatory.KnownPart | purgatory.VerdictPart) {
	case purgatory.OfAuthor:
		where = `pubkey = $1`
	case purgatory.OfDependentsNetwork:
		where += ` AND parent IS NOT NULL`
	}
	return r.firstHeld(where+` AND known = $2 AND (cause = 2) = $3 AND seq <> $4 ORDER BY seq DESC LIMIT 1`,
		key, c&purgatory.KnownPart != 0, c&purgatory.VerdictPart != 0, except)
}

// FirstDependent returns the row of a stranger that depends on any key and is due first, nil for
// none. It leaves one row out.
func (r rows) FirstDependent(except int64) (*purgatory.Row, error) {
	return r.firstHeld(`parent IS NOT NULL AND NOT known AND seq <> $1 ORDER BY due, seq LIMIT 1`, except)
}

// FirstDormant returns the dormant row that is due first, nil for none. It looks at rows of the
// author, or of all strangers for nil, and leaves one row out.
func (r rows) FirstDormant(author *host.PubKey, except int64) (*purgatory.Row, error) {
	if author != nil {
		return r.firstHeld(`dormant AND pubkey = $1 AND seq <> $2 ORDER BY due, seq LIMIT 1`, author[:], except)
	}
	return r.firstHeld(`dormant AND NOT known AND seq <> $1 ORDER BY due, seq LIMIT 1`, except)
}

// InsertHeld adds the row of an event with its index rows.
func (r rows) InsertHeld(e *host.Event, k *semantics.Known, h *purgatory.Row) error {
	tx := r.tx
	var seq int64
	_, err := tx.row(`
		INSERT INTO held (id, pubkey, place, kind, created_at, expires, address, json, since, due, dormant, reason, cause, parent, network, known, audience, synced, wake)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19) RETURNING seq`,
		[]any{e.ID[:], e.PubKey[:], sortKeyOf(e), int32(e.Kind), e.CreatedAt, expiry(e), k.AddressKey, e.JSON, h.Since, h.Due, h.Dormant, []byte(h.Reason), int16(h.Cause), h.Parent, h.Network, h.Known, e.Audience.Encode(), h.Synced, h.Wake}, &seq)
	if err != nil {
		return err
	}
	var tags tagRows
	tags.add(&tx.s.keys, held, e.For(nil), seq) // purgatory is nobody's to read
	if len(tags.key) > 0 {
		if _, err := tx.exec(insertTags("held_tag"), tags.key, tags.kind, tags.sortKey, tags.seq, tags.expires); err != nil {
			return err
		}
	}
	clear(tx.looked)
	tx.work++
	tx.holdChanged = true
	tx.total.Held++
	tx.total.HeldBytes += int64(len(e.JSON))
	return nil
}

// UpdateHeld writes Since, Due, Dormant and Wake of a row.
func (r rows) UpdateHeld(h *purgatory.Row) error {
	r.tx.holdChanged = true
	r.tx.work++
	_, err := r.tx.exec(`UPDATE held SET since = $2, due = $3, dormant = $4, wake = $5 WHERE seq = $1`, h.Number, h.Since, h.Due, h.Dormant, h.Wake)
	return err
}

// RemoveHeld removes rows with their index rows.
func (r rows) RemoveHeld(list []*purgatory.Row) error {
	numbers := make([]int64, len(list))
	for i, h := range list {
		numbers[i] = h.Number
	}
	_, err := r.tx.deleteReturning(held, `DELETE FROM held WHERE seq = ANY($1) RETURNING `+goneColumns, numbers)
	return err
}

// Gone returns until when an announcement is not taken from sync, and false if it may be.
func (r rows) Gone(id host.ID) (until int64, ok bool, err error) {
	ok, err = r.tx.row(`SELECT until FROM held_gone WHERE id = $1`, []any{id[:]}, &until)
	return until, ok, err
}

// AddGone notes that an announcement is not taken from sync until a time.
func (r rows) AddGone(id host.ID, until int64) error {
	r.tx.holdChanged = true
	_, err := r.tx.exec(`INSERT INTO held_gone VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET until = excluded.until`, id[:], until)
	return err
}

// RemoveGone removes what AddGone noted.
func (r rows) RemoveGone(id host.ID) error {
	r.tx.holdChanged = true
	_, err := r.tx.exec(`DELETE FROM held_gone WHERE id = $1`, id[:])
	return err
}

// RemoveGoneBefore removes at most limit notes whose time is over by now.
func (r rows) RemoveGoneBefore(now int64, limit int) error {
	n, err := r.tx.exec(`DELETE FROM held_gone WHERE id IN (SELECT id FROM held_gone WHERE until <= $1 LIMIT $2)`, now, limit)
	if n > 0 {
		r.tx.holdChanged = true
	}
	return err
}

// Traces returns what the database has of an event that is not held.
func (r rows) Traces(id host.ID) (t purgatory.Traces, err error) {
	if err := r.tx.flush(); err != nil {
		return t, err
	}
	const sql = `SELECT EXISTS (SELECT 1 FROM event WHERE id = $1), EXISTS (SELECT 1 FROM held_gone WHERE id = $1), EXISTS (SELECT 1 FROM deleted_id WHERE id = $1)`
	_, err = r.tx.row(sql, []any{id[:]}, &t.Stored, &t.Gone, &t.Deleted)
	return t, err
}
