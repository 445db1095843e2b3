package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
	"talon/host/wire"
)

// SetAudience changes who may receive a stored event. The event is removed and stored again
// with a new number, so that everything that follows removals and new events follows this too.
// The change is nil if the event is not stored, or has this audience already.
func (tx *Tx) SetAudience(id host.ID, a *host.Audience) (out *host.AudienceChange, err error) {
	if err = tx.ready(); err == nil {
		if err = contained(tx, func() (err error) {
			out, err = tx.setAudience(id, a)
			return err
		}); err != nil {
			tx.failed = err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("change the audience of %s: %w", id, err)
	}
	if out != nil && tx.others > 0 {
		tx.changes.removed([]*host.Event{out.Before})
		tx.changes.event(changeStored, uint64(out.Seq), out.After)
	}
	return out, nil
}

func (tx *Tx) setAudience(id host.ID, a *host.Audience) (*host.AudienceChange, error) {
	if err := tx.flush(); err != nil {
		return nil, err
	}
	var seq int64
	var audience []byte
	found, err := tx.row(`SELECT seq, audience FROM event WHERE id = $1`, []any{id[:]}, &seq, &audience)
	if err != nil || !found || audienceOf(audience).Equal(a) {
		return nil, err
	}
	removed, err := rows{tx}.Remove([]semantics.Stored{{Seq: seq}})
	if err != nil || len(removed) == 0 {
		return nil, err
	}
	old := removed[0]
	out := &host.AudienceChange{Before: old, After: old.For(a)}
	out.Seq, err = rows{tx}.Insert(out.After, &semantics.Known{AddressKey: tx.s.keys.address(old)}, false)
	return out, err
}

// RepositoryAudience implements [host.AudienceFacts].
func (s *Store) RepositoryAudience(ctx context.Context, ids []host.ID) (out *host.Audience, err error) {
	const sql = `
		SELECT audience FROM event WHERE id = ANY($1) AND audience IS NOT NULL
		UNION ALL SELECT audience FROM held WHERE id = ANY($1) AND audience IS NOT NULL
		UNION ALL SELECT audience FROM hidden WHERE id = ANY($1) AND audience IS NOT NULL`
	list := make([][]byte, len(ids))
	for i := range ids {
		list[i] = ids[i][:]
	}
	err = s.each(ctx, metrics.Audience, sql, []any{list}, func(rows pgx.Rows) error {
		var column []byte
		if err := rows.Scan(&column); err != nil {
			return err
		}
		a, err := host.ParseAudience(column)
		if err != nil {
			a = &host.Audience{Repository: true} // nobody
		}
		out = out.StricterRepository(a)
		return nil
	})
	return out, err
}

// HiddenAudiences calls yield with the id and the audience of each hidden event that is not for
// everybody. yield must not wait.
func (s *Store) HiddenAudiences(ctx context.Context, yield func(id host.ID, a *host.Audience)) error {
	const sql = `SELECT id, audience FROM hidden WHERE audience IS NOT NULL`
	return s.each(ctx, metrics.Audience, sql, nil, func(rows pgx.Rows) error {
		var id, column []byte
		if err := rows.Scan(&id, &column); err != nil {
			return err
		}
		a, err := host.ParseAudience(column)
		if err != nil {
			a = &host.Audience{Repository: true} // nobody
		}
		if len(id) == len(host.ID{}) {
			yield(host.ID(id), a)
		}
		return nil
	})
}

// Withheld calls yield with the id and the audience of each stored event that is not for
// everybody, in no order. yield may wait.
func (s *Store) Withheld(ctx context.Context, yield func(id host.ID, a *host.Audience) error) error {
	type withheld struct {
		id host.ID
		a  *host.Audience
	}
	const sql = `
		SELECT kind, place, id, audience FROM event
		WHERE kind >= $4 AND (kind, place) > ($1, $2) ORDER BY kind, place LIMIT $3`
	kind, place := int32(withheldKinds), []byte{}
	for {
		var part []withheld
		err := s.each(ctx, metrics.Export, sql, []any{kind, place, fetchRows, int32(withheldKinds)}, func(rows pgx.Rows) error {
			var id, audience []byte
			if err := rows.Scan(&kind, &place, &id, &audience); err != nil {
				return err
			}
			w := withheld{host.ID(id), audienceOf(audience)}
			if w.a == nil {
				w.a = host.Nobody
			}
			part = append(part, w)
			return nil
		})
		if err != nil || len(part) == 0 {
			return err
		}
		for _, w := range part {
			if err := yield(w.id, w.a); err != nil {
				return err
			}
		}
	}
}

// withheldKinds is what a withheld event adds to its kind in tables event and tag. So the index rows
// of withheld events have spans of their own: whoever may not see them reads other spans. A
// withheld event also has a row in table tag for each key and set of its audience.
const withheldKinds = 1 << 16

// indexKind is the kind of an event in the indexes.
func indexKind(e *host.Event) int32 {
	if e.Audience != nil {
		return int32(e.Kind) + withheldKinds
	}
	return int32(e.Kind)
}

// audienceOf reads a column audience. Nobody receives an event of which it is damaged.
func audienceOf(column []byte) *host.Audience {
	a, err := host.ParseAudience(column)
	if err != nil {
		return host.Nobody
	}
	return a
}

// parseEvent reads an event of the columns json and audience.
func parseEvent(json, audience []byte) (*host.Event, error) {
	e, err := wire.ParseEvent(json)
	if err == nil {
		e.Audience = audienceOf(audience)
	}
	return e, err
}
