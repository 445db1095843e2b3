package postgres

import (
	"bytes"
	"fmt"
	"time"

	"talon/host"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// Put stores the event, or returns why it does not: it is here already, or a newer
// version is, or its author deleted it, or it has expired by now. What it replaces or
// deletes, held events included, is in the outcome. The outcome holds once Commit
// succeeds.
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
	var out host.Outcome
	err := contained(tx, func() (err error) {
		out, err = f()
		return err
	})
	if err != nil {
		tx.failed = err
		tx.s.metrics.PutErrors.Inc()
		return host.Outcome{}, fmt.Errorf("%s %s: %w", what, e.ID, err)
	}
	tx.s.metrics.Put[out.Code].Observe(time.Since(began).Seconds())
	if tx.others > 0 {
		if out.Code == host.Stored {
			tx.changes.add(changeStored, uint64(out.Seq), e.JSON)
		}
		tx.changes.removed(out.Removed)
		tx.changes.held(out.Held)
	}
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
	json      []byte // of that version, if the event replaces it and it is not long

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

const (
	// maxLookups is how many events are looked up in one statement.
	maxLookups = 512

	// maxOldBytes is how much JSON of a version that may be replaced is read before it is.
	maxOldBytes = 16 << 10
)

// lookUp asks about events that are given by a column each. The server would read whole tables
// for EXISTS of many.
const lookUp = `
	SELECT (SELECT 1 FROM event WHERE id = x.id) IS NOT NULL,
		(SELECT 1 FROM deleted_id WHERE id = x.id AND pubkey = x.pubkey) IS NOT NULL,
		(SELECT until FROM deleted_address WHERE key = x.key),
		a.seq, a.created_at, a.id,
		CASE WHEN a.created_at <= x.created_at AND a.id <> x.id AND octet_length(a.json) <= $5 THEN a.json END,
		(SELECT 1 FROM held WHERE id = x.id) IS NOT NULL,
		(SELECT 1 FROM held WHERE address = x.key LIMIT 1) IS NOT NULL
	FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[]) WITH ORDINALITY x (id, pubkey, key, created_at, n)
	LEFT JOIN event a ON a.address = x.key ORDER BY x.n`

// know returns what decides about an event. What the database has of it is looked up together
// with that of the events that come next, so that a batch waits for one answer and not for as
// many as it has events.
func (tx *Tx) know(e *host.Event) (known, error) {
	if tx.waits(e.ID, tx.s.keys.address(e)) {
		if err := tx.flush(); err != nil {
			return known{}, err
		}
	}
	if k, ok := tx.looked[e.ID]; ok {
		return k, nil
	}
	err := tx.lookUp(e)
	return tx.looked[e.ID], err
}

// waits reports whether an event of that id or address is put and not inserted yet.
func (tx *Tx) waits(id host.ID, key []byte) bool {
	_, waits := tx.ids[id]
	if !waits && key != nil {
		_, waits = tx.addresses[string(key)]
	}
	return waits
}

// lookUp asks the database about an event, and about those that come next.
func (tx *Tx) lookUp(e *host.Event) error {
	var ids, authors, keys [][]byte
	var created []int64
	add := func(e *host.Event) {
		key := tx.s.keys.address(e)
		if _, twice := tx.looked[e.ID]; twice || tx.waits(e.ID, key) {
			return
		}
		tx.looked[e.ID] = known{key: key}
		ids, authors, keys, created = append(ids, e.ID[:]), append(authors, e.PubKey[:]), append(keys, key), append(created, e.CreatedAt)
	}
	add(e)
	if tx.upcoming != nil {
		for _, next := range tx.upcoming(maxLookups) {
			add(next)
		}
	}
	ctx, cancel := call()
	defer cancel()
	rows, err := tx.s.conn.Query(ctx, lookUp, ids, authors, keys, created, maxOldBytes)
	if err != nil {
		return err
	}
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		id := host.ID(ids[i])
		k := tx.looked[id]
		if err := rows.Scan(&k.here, &k.deleted, &k.until, &k.current, &k.createdAt, &k.id, &k.json, &k.held, &k.heldAny); err != nil {
			return err
		}
		tx.looked[id] = k
	}
	return rows.Err()
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
	case k.gone(e), k.deleted && e.Kind != host.KindDeletion:
		return refuse(host.Rejected, semantics.ReasonDeleted)
	}
	if k.current != nil {
		if out.Removed, err = tx.replace(&k); err != nil {
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

// replace has the version at an event's address deleted with the next flush, and returns it.
func (tx *Tx) replace(k *known) ([]*host.Event, error) {
	old, err := wire.ParseEvent(k.json)
	if err != nil {
		return tx.deleteReturning(stored, `DELETE FROM event WHERE seq = $1 RETURNING seq, json`, *k.current)
	}
	tx.gone(stored, int64(len(k.json)))
	tx.old = append(tx.old, *k.current)
	tx.oldTags.add(&tx.s.keys, old, *k.current)
	return []*host.Event{old}, nil
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
		tx.expiryChanged = true
	}
	r := &tx.fresh
	r.seq, r.createdAt = append(r.seq, seq), append(r.createdAt, e.CreatedAt)
	r.id, r.pubkey = append(r.id, e.ID[:]), append(r.pubkey, e.PubKey[:])
	r.sortKey, r.key = append(r.sortKey, placeOf(e)), append(r.key, key)
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
	err = contained(tx, func() error {
		err := tx.flush()
		if err == nil {
			removed, err = tx.deleteReturning(stored, `
				DELETE FROM event WHERE seq IN (SELECT seq FROM event WHERE expires <= $1 ORDER BY expires, seq LIMIT $2)
				RETURNING seq, json`, now, limit)
		}
		return err
	})
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("sweep: %w", err)
	}
	if tx.others > 0 {
		tx.changes.removed(removed)
	}
	return removed, nil
}

// delete carries out a deletion event (NIP-09) and returns what it removed. Targets that
// are not ids or addresses of its author's are ignored. However many there are, it takes
// a few statements.
func (tx *Tx) delete(e *host.Event) (removed []*host.Event, changes []host.HeldChange, err error) {
	var ids [][]byte
	var values []string
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) {
				ids = append(ids, id[:])
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a.PubKey == e.PubKey {
				values = append(values, a.String())
			}
		}
	}
	if ids == nil && values == nil {
		return nil, nil, nil
	}
	if err := tx.flush(); err != nil {
		return nil, nil, err
	}
	if ids != nil {
		if removed, changes, err = tx.deleteIDs(unique(ids), e.PubKey); err != nil {
			return nil, nil, err
		}
	}
	if values == nil {
		return removed, changes, nil
	}
	gone, waited, err := tx.deleteAddresses(tx.s.keys.keys(nameAddress, values), e.CreatedAt)
	return append(removed, gone...), append(changes, waited...), err
}

// deleteIDs removes the author's events, and remembers that the author wants them gone,
// whether they are here or not.
func (tx *Tx) deleteIDs(ids [][]byte, author host.PubKey) (removed []*host.Event, changes []host.HeldChange, err error) {
	_, err = tx.exec(`
		INSERT INTO deleted_id SELECT x.id, $2 FROM unnest($1::bytea[]) x (id)
		WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.id = x.id AND (e.pubkey <> $2 OR e.kind = 5))
		ON CONFLICT DO NOTHING`, ids, author[:])
	if err != nil {
		return nil, nil, err
	}
	removed, err = tx.deleteReturning(stored, `DELETE FROM event WHERE id = ANY($1) AND pubkey = $2 AND kind <> 5 RETURNING seq, json`, ids, author[:])
	if err != nil || tx.total.Held == 0 {
		return removed, nil, err
	}
	changes, err = tx.dropHeld(host.StatusDeleted, `id = ANY($1) AND pubkey = $2 AND kind <> 5`, ids, author[:])
	return removed, changes, err
}

// deleteAddresses removes versions that are not newer than until, and remembers that none
// such is wanted. Purgatory may have several at an address.
func (tx *Tx) deleteAddresses(keys [][]byte, until int64) (removed []*host.Event, changes []host.HeldChange, err error) {
	_, err = tx.exec(`
		INSERT INTO deleted_address SELECT x.key, $2 FROM unnest($1::bytea[]) x (key)
		ON CONFLICT (key) DO UPDATE SET until = greatest(deleted_address.until, excluded.until)`, keys, until)
	if err != nil {
		return nil, nil, err
	}
	removed, err = tx.deleteReturning(stored, `DELETE FROM event WHERE address = ANY($1) AND created_at <= $2 RETURNING seq, json`, keys, until)
	if err != nil || tx.total.Held == 0 {
		return removed, nil, err
	}
	changes, err = tx.dropHeld(host.StatusDeleted, `address = ANY($1) AND created_at <= $2`, keys, until)
	return removed, changes, err
}
