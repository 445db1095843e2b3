package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// Put stores the event, or returns why it does not: see [semantics.Put]. The events that it
// replaces or deletes, held events included, are in the outcome. The outcome holds once Commit
// succeeds.
//
// The event's id and signature must have been checked.
func (tx *Tx) Put(e *host.Event, now int64) (host.Outcome, error) {
	return tx.one("put event", e, func() (host.Outcome, error) { return purgatory.Put(rows{tx}, e, now) })
}

// one runs a function that puts or holds an event.
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
		if out.Seq != 0 {
			tx.changes.event(changeStored, uint64(out.Seq), e)
		}
		tx.changes.released(out.Released)
		tx.changes.removed(out.Removed)
		tx.changes.held(out.Held)
	}
	return out, nil
}

// rows gives packages semantics and purgatory, which have the rules, the stored and held events of
// an open transaction.
type rows struct{ tx *Tx }

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
		CASE WHEN a.created_at <= x.created_at AND a.id <> x.id AND octet_length(a.json) <= $5 AND a.audience IS NULL THEN a.json END,
		(SELECT 1 FROM held WHERE id = x.id) IS NOT NULL,
		(SELECT 1 FROM held WHERE address = x.key LIMIT 1) IS NOT NULL,
		$6 AND ((SELECT 1 FROM hidden WHERE id = x.id) IS NOT NULL OR (SELECT 1 FROM hidden WHERE address = x.key LIMIT 1) IS NOT NULL),
		CASE WHEN $7 THEN (SELECT until FROM vanished WHERE pubkey = x.pubkey) END
	FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[]) WITH ORDINALITY x (id, pubkey, key, created_at, n)
	LEFT JOIN event a ON a.address = x.key ORDER BY x.n`

// Known returns what the database has that decides about an event. It looks up the events that
// come next too, so that a batch waits for one answer.
func (r rows) Known(e *host.Event, _ bool) (*semantics.Known, error) {
	tx := r.tx
	if tx.waits(e.ID, tx.s.keys.address(e)) {
		if err := tx.flush(); err != nil {
			return nil, err
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
		tx.looked[e.ID] = &semantics.Known{AddressKey: key}
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
	rows, err := tx.s.conn.Query(ctx, lookUp, ids, authors, keys, created, maxOldBytes, tx.total.Hidden > 0, tx.total.Vanished > 0)
	if err != nil {
		return err
	}
	defer rows.Close()
	for i := 0; rows.Next(); i++ {
		k := tx.looked[host.ID(ids[i])]
		var until, seq, createdAt, vanished *int64
		var id, json []byte
		var held, near bool
		if err := rows.Scan(&k.Stored, &k.Deleted, &until, &seq, &createdAt, &id, &json, &held, &near, &k.MayBeHidden, &vanished); err != nil {
			return err
		}
		k.MayBeHeld = held || near
		if until != nil {
			k.AddressDeleted, k.Until = true, *until
		}
		if vanished != nil {
			k.Vanished, k.VanishedUntil = true, *vanished
		}
		if seq != nil {
			k.Version = &semantics.Version{Seq: *seq, CreatedAt: *createdAt, JSON: json}
			copy(k.Version.ID[:], id)
		}
	}
	return rows.Err()
}

// RemoveVersion removes what Known found at an event's address, and returns it. If it was read
// along, that waits for the next flush.
func (r rows) RemoveVersion(v *semantics.Version) (*host.Event, error) {
	tx := r.tx
	old, err := wire.ParseEvent(v.JSON)
	if err != nil {
		removed, err := r.Remove([]semantics.Stored{{Seq: v.Seq}})
		if err != nil || len(removed) == 0 {
			return nil, err
		}
		return removed[0], nil
	}
	tx.gone(stored, int64(len(v.JSON)))
	tx.usage.Remove(old)
	tx.old = append(tx.old, v.Seq)
	tx.oldTags.add(&tx.s.keys, stored, old, v.Seq)
	return old, nil
}

// Insert has the event inserted with the next flush, and returns its number.
func (r rows) Insert(e *host.Event, k *semantics.Known, _ bool) (seq int64, err error) {
	tx := r.tx
	tx.total.Seq++
	tx.total.Events++
	tx.total.Bytes += int64(len(e.JSON))
	if e.Audience != nil {
		tx.total.Withheld++
	}
	tx.usage.Add(e)
	tx.work++
	seq = tx.total.Seq
	expires := expiry(e)
	if expires != nil {
		tx.expiryChanged = true
	}
	f := &tx.fresh
	f.seq, f.createdAt = append(f.seq, seq), append(f.createdAt, e.CreatedAt)
	f.id, f.pubkey = append(f.id, e.ID[:]), append(f.pubkey, e.PubKey[:])
	f.sortKey, f.key = append(f.sortKey, sortKeyOf(e)), append(f.key, k.AddressKey)
	f.json, f.kind = append(f.json, e.JSON), append(f.kind, indexKind(e))
	f.audience = append(f.audience, e.Audience.Encode())
	f.expires = append(f.expires, expires)
	tx.tags.add(&tx.s.keys, stored, e, seq)
	tx.texts = append(tx.texts, text{seq, e.JSON})
	tx.ids[e.ID] = struct{}{}
	if k.AddressKey != nil {
		tx.addresses[string(k.AddressKey)] = struct{}{}
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
				RETURNING `+goneColumns, now, limit)
		}
		if err == nil {
			err = rows{tx}.sweepHidden(now, limit)
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

// StoredByID returns the stored events among those ids.
func (r rows) StoredByID(ids []host.ID) ([]semantics.Stored, error) {
	return r.stored(`id = ANY($1)`, idBytes(ids))
}

// StoredAt returns the stored events at those addresses.
func (r rows) StoredAt(addresses []host.Address) ([]semantics.Stored, error) {
	return r.stored(`address = ANY($1)`, r.tx.s.keys.addresses(addresses))
}

// stored returns the stored events for which a condition holds.
func (r rows) stored(where string, keys [][]byte) ([]semantics.Stored, error) {
	if err := r.tx.flush(); err != nil {
		return nil, err
	}
	ctx, cancel := call()
	defer cancel()
	found, err := r.tx.s.conn.Query(ctx, `SELECT seq, id, pubkey, kind & 65535, created_at FROM event WHERE `+where, keys)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (e semantics.Stored, err error) {
		var id, pubkey []byte
		var kind int32
		err = row.Scan(&e.Seq, &id, &pubkey, &kind, &e.CreatedAt)
		copy(e.ID[:], id)
		copy(e.PubKey[:], pubkey)
		e.Kind = host.Kind(kind)
		return e, err
	})
}

// Remove removes stored events and returns those that can be read.
func (r rows) Remove(events []semantics.Stored) ([]*host.Event, error) {
	numbers := make([]int64, len(events))
	for i, e := range events {
		numbers[i] = e.Seq
	}
	return r.tx.deleteReturning(stored, `DELETE FROM event WHERE seq = ANY($1) RETURNING `+goneColumns, numbers)
}

// StoredEvent returns the stored event of a number, nil if it cannot be read any more.
func (r rows) StoredEvent(seq int64) (*host.Event, error) {
	if err := r.tx.flush(); err != nil {
		return nil, err
	}
	var json, audience []byte
	if there, err := r.tx.row(`SELECT json, audience FROM event WHERE seq = $1`, []any{seq}, &json, &audience); err != nil || !there {
		return nil, err
	}
	e, err := wire.ParseEvent(json)
	if err != nil {
		return nil, nil // damage, which Check reports
	}
	return e.For(audienceOf(audience)), nil
}

// DeletedBy reports whether one of these keys has deleted the id.
func (r rows) DeletedBy(id host.ID, keys []host.PubKey) (deleted bool, err error) {
	_, err = r.tx.row(`SELECT EXISTS (SELECT 1 FROM deleted_id WHERE id = $1 AND pubkey = ANY($2))`, []any{id[:], keyBytes(keys)}, &deleted)
	return deleted, err
}

// AddTombstones notes that the author deleted these ids.
func (r rows) AddTombstones(ids []host.ID, author host.PubKey) error {
	_, err := r.tx.exec(`INSERT INTO deleted_id SELECT x.id, $2 FROM unnest($1::bytea[]) x (id) ON CONFLICT DO NOTHING`, idBytes(ids), author[:])
	return err
}

// AddAddressTombstones notes that the author deleted these addresses up to a time.
func (r rows) AddAddressTombstones(addresses []host.Address, until int64) error {
	_, err := r.tx.exec(`
		INSERT INTO deleted_address SELECT x.key, $2 FROM unnest($1::bytea[]) x (key)
		ON CONFLICT (key) DO UPDATE SET until = greatest(deleted_address.until, excluded.until)`, r.tx.s.keys.addresses(addresses), until)
	return err
}
