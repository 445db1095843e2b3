package postgres

import (
	"bytes"
	"fmt"
	"time"

	"talon/host"
	"talon/host/store/semantics"
)

// Put stores the event, or says why it does not: it is here already, or a newer version
// is, or its author deleted it, or it has expired by now. What it replaces or deletes,
// held events included, is in the outcome. The outcome holds once Commit succeeds.
//
// The event's id and signature must have been checked.
func (tx *Tx) Put(e *host.Event, now int64) (host.Outcome, error) {
	return tx.one("put event", e, func() (host.Outcome, error) { return tx.put(e, now) })
}

// one runs what puts or holds an event.
func (tx *Tx) one(what string, e *host.Event, f func() (host.Outcome, error)) (host.Outcome, error) {
	if err := tx.ready(); err != nil {
		return host.Outcome{}, fmt.Errorf("%s: %w", what, err)
	}
	if e.Kind.Class() == host.Ephemeral {
		return host.Outcome{}, fmt.Errorf("%s: %w", what, semantics.ErrEphemeral)
	}
	began := time.Now()
	out, err := f()
	if err != nil {
		tx.failed = err
		tx.s.metrics.putErrors.Inc()
		return host.Outcome{}, fmt.Errorf("%s %s: %w", what, e.ID, err)
	}
	tx.s.metrics.put[out.Code].Observe(time.Since(began).Seconds())
	return out, nil
}

// known is what the database has that decides about an event.
type known struct {
	key     []byte // of the event's address, nil if it has none
	here    bool   // the event is stored
	deleted bool   // its author deleted it by its id
	until   *int64 // its author deleted the address up to then

	current   *int64 // seq of the version that is stored at its address
	createdAt *int64
	id        []byte

	held    bool // it is in purgatory
	heldAny bool // or something at its address is
}

// newer reports whether the version that is stored at the event's address wins over it.
func (k *known) newer(e *host.Event) bool {
	return k.current != nil && wins(*k.createdAt, k.id, e)
}

// wins reports whether another version at its address wins over the event.
func wins(createdAt int64, id []byte, e *host.Event) bool {
	return createdAt > e.CreatedAt || createdAt == e.CreatedAt && bytes.Compare(id, e.ID[:]) < 0
}

// gone reports whether the event's author deleted its address up to its time.
func (k *known) gone(e *host.Event) bool { return k.until != nil && e.CreatedAt <= *k.until }

// know asks the database, in one statement, once what decides about this event is in it.
func (tx *Tx) know(e *host.Event) (k known, err error) {
	k.key = tx.s.keys.address(e)
	_, waits := tx.ids[e.ID]
	if !waits && k.key != nil {
		_, waits = tx.addresses[string(k.key)]
	}
	if waits {
		if err := tx.flush(); err != nil {
			return k, err
		}
	}
	const sql = `
		SELECT EXISTS (SELECT 1 FROM event WHERE id = $1),
			EXISTS (SELECT 1 FROM deleted_id WHERE id = $1 AND pubkey = $2),
			(SELECT until FROM deleted_address WHERE key = $3),
			a.seq, a.created_at, a.id,
			EXISTS (SELECT 1 FROM held WHERE id = $1),
			EXISTS (SELECT 1 FROM held WHERE address = $3)
		FROM (SELECT 1) o LEFT JOIN event a ON a.address = $3`
	_, err = tx.row(sql, []any{e.ID[:], e.PubKey[:], k.key}, &k.here, &k.deleted, &k.until, &k.current, &k.createdAt, &k.id, &k.held, &k.heldAny)
	k.deleted = k.deleted && e.Kind != host.KindDeletion
	return k, err
}

func (tx *Tx) put(e *host.Event, now int64) (out host.Outcome, err error) {
	refuse := func(code host.Code, reason string) (host.Outcome, error) {
		return host.Outcome{Code: code, Reason: reason}, nil
	}
	if at, ok := e.Expiration(); ok && at <= now {
		return refuse(host.Rejected, semantics.ReasonExpired)
	}
	k, err := tx.know(e)
	switch {
	case err != nil:
		return out, err
	case k.here:
		return refuse(host.Duplicate, semantics.ReasonHave)
	case k.newer(e):
		return refuse(host.Replaced, semantics.ReasonNewer)
	case k.gone(e), k.deleted:
		return refuse(host.Rejected, semantics.ReasonDeleted)
	}
	if k.current != nil {
		if out.Removed, err = tx.take(stored, `DELETE FROM event WHERE seq = $1 RETURNING seq, json`, *k.current); err != nil {
			return out, err
		}
	}
	if out.Seq, err = tx.add(e, k.key); err != nil {
		return out, err
	}
	if e.Kind == host.KindDeletion {
		if out.Removed, out.Held, err = tx.delete(e); err != nil {
			return out, err
		}
	}
	if k.held || k.heldAny {
		superseded, err := tx.supersede(e, k.key)
		out.Held = append(out.Held, superseded...)
		return out, err
	}
	return out, nil
}

// add has the event inserted with the next flush, and returns its seq.
func (tx *Tx) add(e *host.Event, key []byte) (seq int64, err error) {
	tx.total.Seq++
	tx.total.Events++
	tx.total.Bytes += int64(len(e.JSON))
	tx.work++
	seq = tx.total.Seq
	expires := expiry(e)
	if expires != nil {
		tx.dated = true
	}
	r := &tx.fresh
	r.seq, r.createdAt = append(r.seq, seq), append(r.createdAt, e.CreatedAt)
	r.id, r.pubkey = append(r.id, e.ID[:]), append(r.pubkey, e.PubKey[:])
	r.place, r.key = append(r.place, placeOf(e)), append(r.key, key)
	r.json, r.kind = append(r.json, e.JSON), append(r.kind, int32(e.Kind))
	r.expires = append(r.expires, expires)
	tx.tags.add(&tx.s.keys, e, seq)
	tx.texts = append(tx.texts, text{seq, e.JSON})
	tx.ids[e.ID] = struct{}{}
	if key != nil {
		tx.addresses[string(key)] = struct{}{}
	}
	if tx.bytes += len(e.JSON); tx.bytes >= flushBytes {
		return seq, tx.flush()
	}
	return seq, nil
}

// Sweep removes events that have expired by now (NIP-40), at most limit, and returns them.
func (tx *Tx) Sweep(now int64, limit int) (removed []*host.Event, err error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if err = tx.flush(); err == nil {
		removed, err = tx.take(stored, `
			DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE expires <= $1 ORDER BY expires, seq LIMIT $2)
			RETURNING seq, json`, now, limit)
	}
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return removed, nil
}
