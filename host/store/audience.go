package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"math"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// SetAudience changes who may receive a stored event. The event is removed and stored again
// with a new number, so that everything that follows removals and new events follows this too.
// The change is nil if the event is not stored, or has this audience already.
func (tx *Tx) SetAudience(id host.ID, a *host.Audience) (*host.AudienceChange, error) {
	if err := tx.ready(); err != nil {
		return nil, fmt.Errorf("change an audience: %w", err)
	}
	out, err := contained(tx, func() (*host.AudienceChange, error) { return tx.setAudience(id, a) })
	if err != nil {
		tx.failed = err
		return nil, fmt.Errorf("change the audience of %s: %w", id, err)
	}
	return out, nil
}

func (tx *Tx) setAudience(id host.ID, a *host.Audience) (*host.AudienceChange, error) {
	row, err := tx.w.conn.first(`SELECT seq, audience FROM event WHERE seq = (`+eventOfID+`)`, tx.s.keys.id(id))
	if err != nil || row == nil {
		return nil, err
	}
	if before, err := audienceOf(row[1]); err == nil && before.Equal(a) {
		return nil, nil
	}
	old, err := tx.remove(row[0].(int64))
	if err != nil || old == nil {
		return nil, err
	}
	k := semantics.Known{IDKey: tx.s.keys.id(id)}
	if address, ok := old.Address(); ok {
		k.AddressKey = tx.s.keys.address(address)
	}
	out := &host.AudienceChange{Before: old, After: old.For(a)}
	out.Seq, err = rows{tx}.Insert(out.After, &k, false)
	return out, err
}

// repositoryAudiences takes keys of ids and ids, JSON arrays, and lists the audiences of events that
// are not for everybody.
const repositoryAudiences = `
	SELECT e.audience FROM json_each(?1) v CROSS JOIN event_id i ON i.key = unhex(v.value) CROSS JOIN event e ON e.seq = i.event
	WHERE i.withheld IS NOT NULL
	UNION ALL SELECT h.audience FROM json_each(?2) v CROSS JOIN held h ON h.id = unhex(v.value) WHERE h.audience IS NOT NULL
	UNION ALL SELECT h.audience FROM json_each(?2) v CROSS JOIN hidden h ON h.id = unhex(v.value) WHERE h.audience IS NOT NULL`

// RepositoryAudience implements [host.AudienceFacts].
func (s *Store) RepositoryAudience(ctx context.Context, ids []host.ID) (out *host.Audience, err error) {
	keys, all := make([][]byte, len(ids)), make([][]byte, len(ids))
	err = s.use(ctx, metrics.Audience, func(r *reader) error {
		for i := range ids {
			keys[i], all[i] = r.keys.id(ids[i]), ids[i][:]
		}
		return r.each(ctx, repositoryAudiences, list(jsonHex(keys), jsonHex(all)), func(row []driver.Value) error {
			a, err := audienceOf(row[0])
			if err != nil {
				a = &host.Audience{Repository: true} // nobody
			}
			out = out.StricterRepository(a)
			return nil
		})
	})
	return out, err
}

// HiddenAudiences calls yield with the id and the audience of each hidden event that is not for
// everybody. yield must not wait.
func (s *Store) HiddenAudiences(ctx context.Context, yield func(id host.ID, a *host.Audience)) error {
	return s.use(ctx, metrics.Audience, func(r *reader) error {
		return r.each(ctx, `SELECT id, audience FROM hidden WHERE audience IS NOT NULL`, nil, func(row []driver.Value) error {
			id, _ := row[0].([]byte)
			a, err := audienceOf(row[1])
			if err != nil {
				a = &host.Audience{Repository: true} // nobody
			}
			if len(id) == len(host.ID{}) {
				yield(host.ID(id), a)
			}
			return nil
		})
	})
}

// Withheld calls yield with the id and the audience of each stored event that is not for
// everybody, in no order. yield may wait.
func (s *Store) Withheld(ctx context.Context, yield func(id host.ID, a *host.Audience) error) error {
	if s.writer != nil && s.total.Load().Withheld == 0 {
		return nil
	}
	type withheld struct {
		id host.ID
		a  *host.Audience
	}
	for last := above(math.MaxInt64); ; {
		var seqs []int64
		var part []withheld
		err := s.use(ctx, metrics.Export, func(r *reader) error {
			const sql = `SELECT place FROM posting WHERE key = ? AND kind = ? AND place > ? ORDER BY place LIMIT ?`
			err := r.each(context.Background(), sql, list(keyTime, int64(withheldKinds), last, int64(fetchRows)), func(row []driver.Value) error {
				b, _ := row[0].([]byte)
				if len(b) != longSortKey {
					return errSortKeys
				}
				last = bytes.Clone(b)
				seqs = append(seqs, parseSortKey(b).seq)
				return nil
			})
			if err != nil || len(seqs) == 0 {
				return err
			}
			const events = `SELECT e.id, e.audience FROM json_each(?) r CROSS JOIN event e ON e.seq = r.value`
			return r.each(context.Background(), events, list(jsonInts(seqs)), func(row []driver.Value) error {
				b, _ := row[0].([]byte)
				a, err := audienceOf(row[1])
				if err != nil || a == nil {
					a = host.Nobody
				}
				part = append(part, withheld{host.ID(b), a})
				return nil
			})
		})
		if err != nil || len(seqs) == 0 {
			return err
		}
		for _, w := range part {
			if err := yield(w.id, w.a); err != nil {
				return err
			}
		}
	}
}
