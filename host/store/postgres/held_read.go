package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
)

// Held returns the JSON of the event in purgatory, nil if it is not there.
func (s *Store) Held(ctx context.Context, id host.ID) (json []byte, err error) {
	if s.holdsNothing() {
		return nil, nil
	}
	_, err = s.first(ctx, metrics.Held, `SELECT json FROM held WHERE id = $1`, []any{id[:]}, &json)
	return json, err
}

// holdsNothing reports whether purgatory is empty, so that most relays need no query for it. With
// other nodes it returns false, since they may hold events at any moment.
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
	var audience []byte
	ok, err = s.first(ctx, metrics.Held, `SELECT json, since, dormant, parent IS NOT NULL, audience, synced, wake, due FROM held WHERE id = $1`, []any{id[:]}, &h.JSON, &h.Since, &h.Dormant, &h.Dependent, &audience, &h.Synced, &h.Wake, &h.Due)
	h.Audience = audienceOf(audience)
	return h, ok, err
}

// EachHeld calls yield for every event in purgatory, in the order in which they came. yield
// may wait, since no connection is held while it runs. EachHeld ends at an error of yield and
// returns it as it is.
func (s *Store) EachHeld(ctx context.Context, yield func(host.HeldEvent) error) error {
	const sql = `
		SELECT p.seq, p.json, p.since, p.dormant, p.parent IS NOT NULL, p.audience, p.synced, p.wake, p.due FROM (
			SELECT h.*, sum(octet_length(h.json)) OVER (ORDER BY h.seq) - octet_length(h.json) AS before
			FROM (SELECT seq, json, since, dormant, parent, audience, synced, wake, due FROM held WHERE seq > $1 ORDER BY seq LIMIT $2) h
		) p WHERE p.before < $3 ORDER BY p.seq`
	for last := int64(0); ; {
		var part []host.HeldEvent
		err := s.each(ctx, metrics.Held, sql, []any{last, fetchRows, int64(fetchBytes)}, func(rows pgx.Rows) error {
			var h host.HeldEvent
			var audience []byte
			err := rows.Scan(&last, &h.JSON, &h.Since, &h.Dormant, &h.Dependent, &audience, &h.Synced, &h.Wake, &h.Due)
			h.Audience = audienceOf(audience)
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
