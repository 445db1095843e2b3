package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/purgatory"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// The rows of hidden events, as packages semantics and purgatory read and write them.

// TakeDown hides, purges or shows events: see [purgatory.TakeDown].
func (tx *Tx) TakeDown(t host.Takedown, now int64) (out host.TakedownOutcome, err error) {
	if err = tx.ready(); err == nil {
		err = contained(tx, func() (err error) {
			out, err = purgatory.TakeDown(rows{tx}, &t, now)
			return err
		})
		if err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return host.TakedownOutcome{}, fmt.Errorf("take events down: %w", err)
	}
	if tx.others > 0 {
		for _, p := range out.Published {
			tx.changes.event(changeStored, uint64(p.Seq), p.Event)
		}
		tx.changes.removed(out.Removed)
		tx.changes.held(out.Held)
	}
	return out, nil
}

// HiddenTotal returns how many events are hidden.
func (r rows) HiddenTotal() int64 { return r.tx.total.Hidden }

// selectHidden reads the columns of a [semantics.Hidden].
const selectHidden = `SELECT number, id, pubkey, kind, created_at, json, audience FROM hidden WHERE `

func scanHidden(row pgx.CollectableRow) (h semantics.Hidden, err error) {
	var id, pubkey, audience []byte
	var kind int32
	err = row.Scan(&h.Seq, &id, &pubkey, &kind, &h.CreatedAt, &h.JSON, &audience)
	h.Audience = audienceOf(audience)
	copy(h.ID[:], id)
	copy(h.PubKey[:], pubkey)
	h.Kind = host.Kind(kind)
	return h, err
}

// hidden returns the hidden events for which a condition holds.
func (r rows) hidden(where string, args ...any) ([]semantics.Hidden, error) {
	if r.tx.total.Hidden == 0 {
		return nil, nil
	}
	ctx, cancel := call()
	defer cancel()
	found, err := r.tx.s.conn.Query(ctx, selectHidden+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scanHidden)
}

// HiddenByID returns the hidden events among those ids.
func (r rows) HiddenByID(ids []host.ID) ([]semantics.Hidden, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return r.hidden(`id = ANY($1) ORDER BY number`, idBytes(ids))
}

// HiddenAt returns the hidden events at those addresses.
func (r rows) HiddenAt(addresses []host.Address) ([]semantics.Hidden, error) {
	return r.hidden(`address = ANY($1) ORDER BY number`, r.tx.s.keys.addresses(addresses))
}

// InsertHidden adds a hidden event.
func (r rows) InsertHidden(e *host.Event) error {
	tx := r.tx
	var keys [][]byte
	semantics.Maintained(e, func(value string) { keys = append(keys, tx.s.keys.key(host.MaintainerOf, value)) })
	_, err := tx.exec(`
		WITH h AS (INSERT INTO hidden (id, pubkey, created_at, kind, address, expires, json, audience) VALUES ($1, $2, $3, $4, $5, $6, $7, $9) RETURNING number)
		INSERT INTO hidden_maintainer SELECT k.key, h.number FROM h, unnest($8::bytea[]) k (key)`,
		e.ID[:], e.PubKey[:], e.CreatedAt, int32(e.Kind), tx.s.keys.address(e), expiry(e), e.JSON, unique(keys), e.Audience.Encode())
	tx.work++
	tx.expiryChanged = true
	tx.total.Hidden++
	tx.total.HiddenBytes += int64(len(e.JSON))
	return err
}

// RemoveHidden removes hidden events.
func (r rows) RemoveHidden(list []semantics.Hidden) error {
	if len(list) == 0 {
		return nil
	}
	tx := r.tx
	numbers := make([]int64, len(list))
	for i, h := range list {
		numbers[i] = h.Seq
	}
	if _, err := tx.exec(`DELETE FROM hidden_maintainer WHERE hidden = ANY($1)`, numbers); err != nil {
		return err
	}
	var n, size int64
	_, err := tx.row(`WITH d AS (DELETE FROM hidden WHERE number = ANY($1) RETURNING json) SELECT count(*), coalesce(sum(octet_length(json)), 0) FROM d`, []any{numbers}, &n, &size)
	clear(tx.looked)
	tx.work++
	tx.expiryChanged = true
	tx.total.Hidden -= n
	tx.total.HiddenBytes -= size
	return err
}

// sweepHidden removes hidden events that have expired by now, at most limit.
func (r rows) sweepHidden(now int64, limit int) error {
	due, err := r.hidden(`expires <= $1 ORDER BY expires, number LIMIT $2`, now, limit)
	if err != nil {
		return err
	}
	return r.RemoveHidden(due)
}

// AddRefused notes ids that sync does not fetch again. An id that is noted becomes the newest.
func (r rows) AddRefused(list []semantics.RefusedID) error {
	if len(list) == 0 {
		return nil
	}
	ids, dates := make([][]byte, len(list)), make([]int64, len(list))
	for i, one := range list {
		ids[i], dates[i] = one.ID[:], one.CreatedAt
	}
	_, err := r.tx.exec(`
		INSERT INTO refused (id, created_at) SELECT DISTINCT ON (id) id, at FROM unnest($1::bytea[], $2::bigint[]) x (id, at)
		ON CONFLICT (id) DO UPDATE SET number = DEFAULT`, ids, dates)
	if err == nil {
		_, err = r.tx.exec(`DELETE FROM refused WHERE number <= (SELECT max(number) FROM refused) - $1`, int64(semantics.MaxRefused))
	}
	return err
}

// HiddenBy returns the JSON of the hidden events that match a filter, newest first. The filter is
// one of those of [semantics.HiddenKeys]; others match nothing.
func (s *Store) HiddenBy(ctx context.Context, f host.Filter) (texts [][]byte, err error) {
	if s.alone.Load() && s.total.Load().Hidden == 0 {
		return nil, nil
	}
	ids, addresses, maintained := semantics.HiddenKeys(&f)
	if len(ids)+len(addresses)+len(maintained) == 0 {
		return nil, nil
	}
	where := `id = ANY($1) OR address = ANY($2) OR number IN (SELECT hidden FROM hidden_maintainer WHERE key = ANY($3))`
	found, err := s.hidden(ctx, where, idBytes(ids), s.keys.keys(nameAddress, addresses), s.keys.keys(host.MaintainerOf, maintained))
	if err != nil {
		return nil, err
	}
	return semantics.MatchHidden(found, &f), nil
}

// HiddenAfter returns hidden events with higher numbers than one, at most limit, in the order of
// numbers.
func (s *Store) HiddenAfter(ctx context.Context, number int64, limit int) ([]semantics.Hidden, error) {
	return s.hidden(ctx, `number > $1 ORDER BY number LIMIT $2`, number, limit)
}

func (s *Store) hidden(ctx context.Context, where string, args ...any) (found []semantics.Hidden, err error) {
	err = s.each(ctx, metrics.Moderation, selectHidden+where, args, func(rows pgx.Rows) error {
		h, err := scanHidden(rows)
		found = append(found, h)
		return err
	})
	return found, err
}

// Refused calls yield for the ids that sync does not fetch again, with their dates, in the order in
// which they were noted last.
func (s *Store) Refused(ctx context.Context, yield func(semantics.RefusedID)) error {
	return s.each(ctx, metrics.Moderation, `SELECT id, created_at FROM refused ORDER BY number`, nil, func(rows pgx.Rows) error {
		var one semantics.RefusedID
		var id []byte
		if err := rows.Scan(&id, &one.CreatedAt); err != nil {
			return err
		}
		copy(one.ID[:], id)
		yield(one)
		return nil
	})
}

// NotTakenDown returns those of ids that are neither hidden nor removed by the operator.
func (s *Store) NotTakenDown(ctx context.Context, ids []host.ID) (rest []host.ID, err error) {
	list := make([][]byte, len(ids))
	for i := range ids {
		list[i] = ids[i][:]
	}
	const sql = `
		SELECT x.n FROM unnest($1::bytea[]) WITH ORDINALITY x (id, n)
		WHERE NOT EXISTS (SELECT 1 FROM refused r WHERE r.id = x.id) AND NOT EXISTS (SELECT 1 FROM hidden h WHERE h.id = x.id) ORDER BY x.n`
	err = s.each(ctx, metrics.Missing, sql, []any{list}, func(rows pgx.Rows) error {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return err
		}
		rest = append(rest, ids[n-1])
		return nil
	})
	return rest, err
}

// ClearRefused has sync fetch again what the operator has removed: see [rows.AddRefused].
func (r rows) ClearRefused() error {
	_, err := r.tx.exec(`DELETE FROM refused`)
	return err
}
