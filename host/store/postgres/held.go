package postgres

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// Hold puts the event into purgatory, or returns why it does not: it is stored, or a
// newer version is, its author deleted it, it has expired, or there is no room. One that
// is held already is answered as it was, and there is no second row.
//
// Of the announcements at an address the newest is held. A newer one starts the time
// again, and so does the same one from its author's client. Of other kinds with an address
// all versions are held.
//
// The event's id and signature must have been checked.
func (tx *Tx) Hold(e *host.Event, h host.HoldOptions, now int64) (host.Outcome, error) {
	return tx.one("hold event", e, func() (host.Outcome, error) { return tx.hold(e, &h, now) })
}

func (tx *Tx) hold(e *host.Event, h *host.HoldOptions, now int64) (out host.Outcome, err error) {
	refuse := func(code host.Code, reason string) (host.Outcome, error) {
		out.Code, out.Reason = code, reason
		return out, nil
	}
	if at, ok := e.Expiration(); ok && at <= now {
		return refuse(host.Rejected, semantics.ReasonExpired)
	}
	k, err := tx.know(e)
	if err != nil {
		return out, err
	}
	if k.held {
		if again, err := tx.holdAgain(e, h, now, &out); err != nil || again {
			return out, err
		}
	}
	switch {
	case k.here:
		return refuse(host.Duplicate, semantics.ReasonHave)
	case k.deleted && e.Kind != host.KindDeletion:
		return refuse(host.Rejected, semantics.ReasonDeleted)
	case k.newer(e):
		return refuse(host.Replaced, semantics.ReasonNewer)
	case k.gone(e):
		return refuse(host.Rejected, semantics.ReasonDeleted)
	}
	announcement := e.Kind == host.KindAnnouncement
	if announcement && h.Synced {
		gone, err := tx.row(`SELECT until FROM held_gone WHERE id = $1 AND until > $2`, []any{e.ID[:], now}, new(int64))
		if err != nil || gone {
			out.Code, out.Reason = host.Rejected, semantics.ReasonGone
			return out, err
		}
	}
	var older *heldRow
	if announcement && k.heldAny {
		var newer bool
		if older, newer, err = tx.heldVersion(e, k.key); err != nil {
			return out, err
		}
		if newer {
			return refuse(host.Replaced, semantics.ReasonNewer)
		}
	}
	reason, err := tx.makeRoom(e, older, &out)
	if err != nil || reason != "" {
		out.Code, out.Reason = host.Rejected, reason
		return out, err
	}
	if older != nil {
		changes, err := tx.dropHeld(host.StatusReplaced, `seq = $1`, older.seq)
		if err != nil {
			return out, err
		}
		out.Held = append(out.Held, changes...)
	}
	if err := tx.insertHeld(e, k.key, h.Reason, now); err != nil {
		return out, err
	}
	out.Held = append(out.Held, host.HeldChange{Event: e, Status: host.StatusHeld, Synced: h.Synced})
	if err := tx.restart(h.ExtendDeadline, now, &out.Held); err != nil {
		return out, err
	}
	return refuse(host.Held, h.Reason)
}

// holdAgain answers an event that is held, and reports whether it still is.
func (tx *Tx) holdAgain(e *host.Event, h *host.HoldOptions, now int64, out *host.Outcome) (bool, error) {
	rows, err := tx.heldRows(`id = $1`, e.ID[:])
	if err != nil || len(rows) == 0 {
		return false, err
	}
	// Its time may be up, and the sweep be late.
	if gone, err := tx.age(rows[0], now, &out.Held); err != nil || gone {
		return false, err
	}
	out.Code, out.Reason = host.Held, rows[0].reason
	if e.Kind == host.KindAnnouncement && !h.Synced {
		if err := tx.restartRow(rows[0], now, &out.Held); err != nil {
			return false, err
		}
	}
	return true, tx.restart(h.ExtendDeadline, now, &out.Held)
}

// heldVersion returns the held announcement that e replaces, nil if there is none, and
// whether the held one is newer than e.
func (tx *Tx) heldVersion(e *host.Event, key []byte) (older *heldRow, newer bool, err error) {
	rows, err := tx.heldRows(`address = $1`, key)
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	if wins(rows[0].createdAt, rows[0].id, e) {
		return nil, true, nil
	}
	return rows[0], false, nil
}

func (tx *Tx) insertHeld(e *host.Event, key []byte, reason string, now int64) error {
	var seq int64
	_, err := tx.row(`
		INSERT INTO held (id, pubkey, place, kind, created_at, expires, address, json, since, due, dormant, reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, false, $11) RETURNING seq`,
		[]any{e.ID[:], e.PubKey[:], placeOf(e), int32(e.Kind), e.CreatedAt, expiry(e), key, e.JSON, now, semantics.Due(e, now, false), []byte(reason)}, &seq)
	if err != nil {
		return err
	}
	var tags tagRows
	tags.add(&tx.s.keys, e, seq)
	if len(tags.key) > 0 {
		if _, err := tx.exec(insertTags("held_tag"), tags.key, tags.kind, tags.sortKey, tags.seq, tags.expires); err != nil {
			return err
		}
	}
	if e.Kind == host.KindAnnouncement {
		if _, err := tx.exec(`DELETE FROM held_gone WHERE id = $1`, e.ID[:]); err != nil {
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

// makeRoom makes sure that e fits, and returns why it does not. Announcements that are
// dormant, whose git data did not come in time, give way to it: first those that would go
// first. What e replaces counts as gone.
func (tx *Tx) makeRoom(e *host.Event, older *heldRow, out *host.Outcome) (reason string, err error) {
	limit := tx.s.limits
	var gain heldRow
	if older != nil {
		gain = *older
	}
	evicted := 0
	evict := func(where string, args ...any) (bool, error) {
		if evicted == semantics.MaxEvicted {
			return false, nil
		}
		evicted++
		changes, err := tx.dropHeld(host.StatusExpired, `seq = (SELECT seq FROM held WHERE dormant AND `+where+` ORDER BY due, seq LIMIT 1)`, args...)
		out.Held = append(out.Held, changes...)
		return len(changes) > 0, err
	}
	if older == nil {
		// With an older one, there are as many of the author as before.
		var n int64
		if _, err := tx.row(`SELECT count(*) FROM held WHERE pubkey = $1`, []any{e.PubKey[:]}, &n); err != nil {
			return "", err
		}
		if n >= limit.ByAuthor {
			if ok, err := evict(`pubkey = $1`, e.PubKey[:]); err != nil || !ok {
				return fmt.Sprintf(semantics.ReasonOwnFull, n), err
			}
		}
	}
	for {
		full := older == nil && tx.total.Held >= limit.Events
		if !full && tx.total.HeldBytes-gain.size()+int64(len(e.JSON)) <= limit.Bytes {
			return "", nil
		}
		if ok, err := evict(`seq <> $1`, gain.seq); err != nil || !ok {
			return semantics.ReasonFull, err
		}
	}
}

// dropHeld takes rows away and notes their fate.
func (tx *Tx) dropHeld(fate host.HeldStatus, where string, args ...any) (changes []host.HeldChange, err error) {
	events, err := tx.deleteReturning(held, `DELETE FROM held WHERE `+where+` RETURNING seq, json`, args...)
	for _, e := range events {
		changes = append(changes, host.HeldChange{Event: e, Status: fate})
	}
	return changes, err
}

// supersede takes out of purgatory what a stored event makes pointless: itself, and older
// versions at its address. They would never be stored.
func (tx *Tx) supersede(e *host.Event, key []byte) (changes []host.HeldChange, err error) {
	changes, err = tx.dropHeld(host.StatusReleased, `id = $1`, e.ID[:])
	if err != nil || key == nil {
		return changes, err
	}
	older, err := tx.dropHeld(host.StatusReplaced, `address = $1 AND (created_at < $2 OR created_at = $2 AND id > $3)`, key, e.CreatedAt, e.ID[:])
	return append(changes, older...), err
}

// Release stores held events as Put would, oldest first, so that a newer version takes
// effect after an older one. With the rest of the transaction it happens as a whole or not
// at all. Events that are not held any more, or must not be stored, are reported so: a second
// call is harmless.
func (tx *Tx) Release(r host.Release, now int64) (out host.ReleaseOutcome, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			out, err = tx.release(&r, now)
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
		for _, r := range out.Events {
			if r.Status == host.StatusReleased {
				tx.changes.add(changeStored, uint64(r.Seq), r.Event.JSON)
			}
		}
		tx.changes.removed(out.Removed)
		tx.changes.held(out.Held)
	}
	return out, nil
}

func (tx *Tx) release(r *host.Release, now int64) (out host.ReleaseOutcome, err error) {
	ids, err := semantics.InOrderOfRelease(r.IDs, func(id host.ID) (at int64, err error) {
		_, err = tx.row(`SELECT created_at FROM held WHERE id = $1`, []any{id[:]}, &at)
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
	events, err := tx.deleteReturning(held, `DELETE FROM held WHERE id = $1 RETURNING seq, json`, id[:])
	if err != nil {
		return host.Released{}, err
	}
	if len(events) == 0 {
		fate, err := tx.absent(id)
		return host.Released{ID: id, Status: fate}, err
	}
	e := events[0]
	put, err := tx.put(e, now)
	if err != nil {
		return host.Released{}, err
	}
	fate := host.StatusReleased
	switch {
	case put.Reason == semantics.ReasonDeleted:
		fate = host.StatusDeleted
	case put.Reason == semantics.ReasonExpired:
		fate = host.StatusExpired
	case put.Reason == semantics.ReasonNewer:
		fate = host.StatusReplaced
	case put.Code != host.Stored:
		fate = host.StatusStored
	}
	out.Removed = append(out.Removed, put.Removed...)
	out.Held = append(out.Held, host.HeldChange{Event: e, Status: fate})
	out.Held = append(out.Held, put.Held...)
	return host.Released{ID: id, Status: fate, Event: e, Seq: put.Seq}, nil
}

// absent says, as far as it is known, why an event is not held. Anybody may have asked for
// the deletion of an id that is nowhere.
func (tx *Tx) absent(id host.ID) (host.HeldStatus, error) {
	if err := tx.flush(); err != nil {
		return 0, err
	}
	var stored, gone, deleted bool
	const sql = `SELECT EXISTS (SELECT 1 FROM event WHERE id = $1), EXISTS (SELECT 1 FROM held_gone WHERE id = $1), EXISTS (SELECT 1 FROM deleted_id WHERE id = $1)`
	_, err := tx.row(sql, []any{id[:]}, &stored, &gone, &deleted)
	switch {
	case stored:
		return host.StatusStored, err
	case gone:
		return host.StatusExpired, err
	case deleted:
		return host.StatusDeleted, err
	}
	return host.StatusAbsent, err
}

// Held returns the JSON of the event in purgatory, nil if it is not there.
func (s *Store) Held(ctx context.Context, id host.ID) (json []byte, err error) {
	if s.holdsNothing() {
		return nil, nil
	}
	_, err = s.first(ctx, metrics.Held, `SELECT json FROM held WHERE id = $1`, []any{id[:]}, &json)
	return json, err
}

// holdsNothing saves most relays every look into purgatory. What others hold is not known
// at every moment.
func (s *Store) holdsNothing() bool { return s.alone.Load() && s.total.Load().Held == 0 }

// HeldBy returns the JSON of the events in purgatory that match, newest first, ties by
// lowest id. A negative limit is none.
func (s *Store) HeldBy(ctx context.Context, f host.Filter) (texts [][]byte, err error) {
	if s.holdsNothing() || empty(&f) || f.Limit == 0 {
		return nil, nil
	}
	if f.Limit < 0 {
		f.Limit = math.MaxInt32
	}
	var q query
	if _, _, err := s.compose(ctx, &q, held, []host.Filter{f}, 0, true); err != nil {
		return nil, err
	}
	columns := "h.json"
	if f.Header {
		columns = "h.id, h.pubkey, h.created_at, h.kind"
	}
	sql := "SELECT " + columns + " FROM (" + q.String() + ") u JOIN held h ON h.seq = u.seq ORDER BY u.place"
	err = s.each(ctx, metrics.Held, sql, q.args, func(rows pgx.Rows) (err error) {
		var text []byte
		if f.Header {
			text, err = header(rows)
		} else {
			err = rows.Scan(&text)
		}
		texts = append(texts, text)
		return err
	})
	return texts, err
}

// HeldEvent returns the event in purgatory with this id, and whether it is there.
func (s *Store) HeldEvent(ctx context.Context, id host.ID) (h host.HeldEvent, ok bool, err error) {
	if s.holdsNothing() {
		return h, false, nil
	}
	ok, err = s.first(ctx, metrics.Held, `SELECT json, since, dormant FROM held WHERE id = $1`, []any{id[:]}, &h.JSON, &h.Since, &h.Dormant)
	return h, ok, err
}

// EachHeld calls yield for every event in purgatory, in the order in which they came. yield
// may wait: no connection is held meanwhile. Its error ends EachHeld and is returned as it
// is.
func (s *Store) EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error {
	const sql = `
		SELECT p.seq, p.json, p.since, p.dormant FROM (
			SELECT h.*, sum(octet_length(h.json)) OVER (ORDER BY h.seq) - octet_length(h.json) AS before
			FROM (SELECT seq, json, since, dormant FROM held WHERE seq > $1 ORDER BY seq LIMIT $2) h
		) p WHERE p.before < $3 ORDER BY p.seq`
	for last := int64(0); ; {
		var part []host.HeldEvent
		err := s.each(ctx, metrics.Held, sql, []any{last, fetchRows, int64(fetchBytes)}, func(rows pgx.Rows) error {
			var h host.HeldEvent
			err := rows.Scan(&last, &h.JSON, &h.Since, &h.Dormant)
			part = append(part, h)
			return err
		})
		if err != nil || len(part) == 0 {
			return err
		}
		for _, h := range part {
			if err := yield(h); err != nil {
				return err
			}
		}
	}
}
