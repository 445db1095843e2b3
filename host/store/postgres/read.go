package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

const (
	fetchRows  = 256
	fetchBytes = 1 << 20

	// probe is how many candidates of each way are counted to choose one.
	probe = 500
)

// each runs a statement and calls yield for each row. The time that it takes is recorded
// under op.
func (s *Store) each(ctx context.Context, op metrics.Operation, sql string, args []any, yield func(pgx.Rows) error) error {
	select {
	case <-s.closed:
		return semantics.ErrClosed
	default:
	}
	began := time.Now()
	defer func() { s.metrics.Queries[op].Observe(time.Since(began).Seconds()) }()
	again, err := s.read(ctx, sql, args, &yield)
	if again && ctx.Err() == nil {
		// The server was restarted, or a proxy has dropped the connection: all other open
		// connections are broken too.
		s.pool.Reset()
		_, err = s.read(ctx, sql, args, &yield)
	}
	if yield == nil {
		return err
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, context.Canceled):
		err = semantics.ErrClosed // by Close
	}
	return fmt.Errorf("%s events: %w", op, away(err))
}

// read is one attempt of each. It sets yield to nil if the error is that of yield, and
// reports whether the line was dead before anything was read.
func (s *Store) read(ctx context.Context, sql string, args []any, yield *func(pgx.Rows) error) (again bool, err error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return dead(err), err
	}
	defer rows.Close()
	fresh := true
	for rows.Next() {
		fresh = false
		if err := (*yield)(rows); err != nil {
			*yield = nil
			return false, err
		}
	}
	err = rows.Err()
	return fresh && dead(err), err
}

// dead reports whether an error is that of a connection that the server has ended, and not
// of the statement.
func dead(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return strings.HasPrefix(said.Code, "57P")
	}
	return err != nil
}

// away returns an error with [host.ErrAway] if it is that of a connection.
func away(err error) error {
	if dead(err) {
		return fmt.Errorf("%w: %w", host.ErrAway, cause(err))
	}
	return err
}

// first reads one row. It reports whether there is one.
func (s *Store) first(ctx context.Context, op metrics.Operation, sql string, args []any, into ...any) (found bool, err error) {
	err = s.each(ctx, op, sql, args, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(into...)
	})
	return found, err
}

// compose appends the selections of all filters that may match something, one after the
// other, and returns how many there are, and whether one event may be in several.
func (s *Store) compose(ctx context.Context, q *query, t tables, filters []host.Filter, now int64, limited bool) (n int, distinct bool, err error) {
	for i := range filters {
		f := &filters[i]
		if empty(f) || limited && f.Limit == 0 {
			continue
		}
		if n++; n > 1 {
			q.WriteString(" UNION ALL ")
		}
		all := []part{{f, spacePublic}}
		if t == stored {
			all = parts(f)
		}
		limit := -1
		if limited {
			limit = max(f.Limit, -1)
		}
		if len(all) > 1 {
			q.WriteString("(SELECT w.place, w.seq FROM (")
		}
		for i, p := range all {
			way, err := s.choose(ctx, t, p.filter)
			if err != nil {
				return 0, false, err
			}
			if i > 0 {
				q.WriteString(" UNION ALL ")
			}
			(&selection{q, &s.keys, t, p.filter, way, p.space, now, limit}).write()
		}
		if len(all) > 1 {
			q.WriteString(") w")
			if limit >= 0 {
				q.WriteString(" ORDER BY w.place LIMIT " + q.arg(int64(limit)))
			}
			q.WriteString(")")
		}
	}
	return n, n > 1, nil
}

// choose returns the way to a filter's events that has the fewest candidates.
func (s *Store) choose(ctx context.Context, t tables, f *host.Filter) (way int, err error) {
	list := ways(f)
	if len(list) == 1 {
		return list[0], nil
	}
	var q query
	counts := make([]int64, len(list))
	into := make([]any, len(list))
	for i, way := range list {
		if q.Len() > 0 {
			q.WriteString(", ")
		}
		table, column, keys := t.event, "pubkey", authorBytes(f.Authors)
		if way >= 0 {
			table, column, keys = t.tag, "key", s.keys.keys(f.Tags[way].Name, f.Tags[way].Values)
		}
		q.WriteString("(SELECT count(*) FROM (SELECT 1 FROM " + table + " WHERE " + column + " = ANY(" + q.arg(keys) + "::bytea[]) LIMIT " + q.arg(int64(probe)) + ") c)")
		into[i] = &counts[i]
	}
	if _, err := s.first(ctx, metrics.Select, "SELECT "+q.String(), q.args, into...); err != nil {
		return 0, err
	}
	best := 0
	for i := range counts {
		if counts[i] < counts[best] {
			best = i
		}
	}
	return list[best], nil
}

// Select returns the events that match any of the filters, newest first, ties by lowest
// id, each once. A filter selects at most Limit of them, its newest; a negative limit is
// none.
func (s *Store) Select(ctx context.Context, filters []host.Filter, now int64) (sel host.Selection, err error) {
	var q query
	q.WriteString("SELECT r.place, r.seq FROM (SELECT NULL::bytea AS place, seq FROM total")
	var part query
	n, distinct, err := s.compose(ctx, &part, stored, filters, now, true)
	if err != nil {
		return sel, err
	}
	if n > 0 {
		q.WriteString(" UNION ALL SELECT ")
		if distinct {
			q.WriteString("DISTINCT ")
		}
		q.WriteString("u.place, u.seq FROM (" + part.String() + ") u")
	}
	q.WriteString(") r ORDER BY r.place NULLS FIRST")
	sel.Rows, sel.Seq = []int64{}, -1
	err = s.each(ctx, metrics.Select, q.String(), part.args, func(rows pgx.Rows) error {
		var seq int64
		if err := rows.Scan(nil, &seq); err != nil {
			return err
		}
		if sel.Seq < 0 {
			sel.Seq = seq
		} else {
			sel.Rows = append(sel.Rows, seq)
		}
		return nil
	})
	return sel, err
}

// Fetch calls yield with the JSON of each row in the given order. It leaves out rows that have
// gone since Select, unless their text is in the cache. yield may wait, since no connection is
// held while it runs, but must not change the text. Fetch ends at an error of yield and
// returns it as it is. About a megabyte of text is in memory at a time, in addition to the
// cache.
func (s *Store) Fetch(ctx context.Context, seqs []int64, yield func(row int64, json []byte) error) error {
	for len(seqs) > 0 {
		if ctx.Err() != nil {
			return fmt.Errorf("fetch events: %w", context.Cause(ctx))
		}
		part, err := s.part(ctx, seqs[:min(len(seqs), fetchRows)])
		if err != nil {
			return err
		}
		for _, t := range part {
			if t.json == nil {
				continue
			}
			if err := yield(t.seq, t.json); err != nil {
				return err
			}
		}
		seqs = seqs[len(part):]
	}
	return nil
}

// part returns the texts of the first rows, nil for those that have gone. It stops early
// when it has read enough.
func (s *Store) part(ctx context.Context, seqs []int64) ([]text, error) {
	part := make([]text, len(seqs))
	var unknown, at []int64 // at: where they are in part
	for i, seq := range seqs {
		part[i] = text{seq, s.cache.Get(seq)}
		if part[i].json == nil {
			unknown, at = append(unknown, seq), append(at, int64(i))
		}
	}
	if unknown == nil {
		return part, nil
	}
	const sql = `
		SELECT p.at, p.json FROM (
			SELECT r.at, e.json, sum(octet_length(e.json)) OVER (ORDER BY r.at) - octet_length(e.json) AS before
			FROM unnest($1::bigint[], $2::bigint[]) r (seq, at) JOIN event e ON e.seq = r.seq
		) p WHERE p.before < $3 ORDER BY p.at`
	size, last := 0, int64(0)
	err := s.each(ctx, metrics.Fetch, sql, []any{unknown, at, int64(fetchBytes)}, func(rows pgx.Rows) error {
		var json []byte
		if err := rows.Scan(&last, &json); err != nil {
			return err
		}
		part[last].json = json
		s.cache.Add(part[last].seq, json)
		size += len(json)
		return nil
	})
	if size >= fetchBytes {
		part = part[:last+1]
	}
	return part, err
}

// Headers returns [host.Event.Header] of each row in the given order. Rows that have gone
// since Select are left out.
func (s *Store) Headers(ctx context.Context, seqs []int64) (list [][]byte, err error) {
	const sql = `
		SELECT e.id, e.pubkey, e.created_at, e.kind & 65535
		FROM unnest($1::bigint[]) WITH ORDINALITY r (seq, n) JOIN event e ON e.seq = r.seq ORDER BY r.n`
	err = s.each(ctx, metrics.Fetch, sql, []any{seqs}, func(rows pgx.Rows) error {
		text, err := header(rows)
		list = append(list, text)
		return err
	})
	return list, err
}

// header reads the columns id, pubkey, created_at and kind.
func header(rows pgx.Rows) ([]byte, error) {
	var e host.Event
	var id, pubkey pgtype.DriverBytes
	var kind int32
	if err := rows.Scan(&id, &pubkey, &e.CreatedAt, &kind); err != nil {
		return nil, err
	}
	copy(e.ID[:], id)
	copy(e.PubKey[:], pubkey)
	e.Kind = host.Kind(kind)
	return e.Header().JSON, nil
}

// Get returns the JSON of the event, nil if it is not stored. Get also returns an event that
// has expired.
func (s *Store) Get(ctx context.Context, id host.ID) (json []byte, err error) {
	_, err = s.first(ctx, metrics.Get, `SELECT json FROM event WHERE id = $1`, []any{id[:]}, &json)
	return json, err
}

// Missing returns those of ids that are not stored.
func (s *Store) Missing(ctx context.Context, ids []host.ID) (missing []host.ID, err error) {
	list := make([][]byte, len(ids))
	for i := range ids {
		list[i] = ids[i][:]
	}
	const sql = `
		SELECT x.n FROM unnest($1::bytea[]) WITH ORDINALITY x (id, n)
		WHERE NOT EXISTS (SELECT 1 FROM event e WHERE e.id = x.id) ORDER BY x.n`
	err = s.each(ctx, metrics.Missing, sql, []any{list}, func(rows pgx.Rows) error {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return err
		}
		missing = append(missing, ids[n-1])
		return nil
	})
	return missing, err
}

// Referenced reports whether a stored event names the id or address in one of its
// [host.ReferenceTags].
func (s *Store) Referenced(ctx context.Context, idOrAddress string) (found bool, err error) {
	var keys [][]byte
	for _, name := range []byte(host.ReferenceTags) {
		keys = append(keys, s.keys.key(name, idOrAddress))
	}
	_, err = s.first(ctx, metrics.Referenced, `SELECT EXISTS (SELECT 1 FROM tag WHERE key = ANY($1::bytea[]))`, []any{keys}, &found)
	return found, err
}

// Count returns how many events match any of the filters. Limits are ignored.
func (s *Store) Count(ctx context.Context, filters []host.Filter, now int64) (total int64, err error) {
	var q query
	n, distinct, err := s.compose(ctx, &q, stored, filters, now, false)
	if err != nil || n == 0 {
		return 0, err
	}
	what := "count(*)"
	if distinct {
		what = "count(DISTINCT u.seq)"
	}
	_, err = s.first(ctx, metrics.Count, "SELECT "+what+" FROM ("+q.String()+") u", q.args, &total)
	return total, err
}

// Authors calls yield with the author of each event that matches any of the filters, once
// for each event: what NIP-45's HyperLogLog is made of. Limits are ignored. yield must not
// wait.
func (s *Store) Authors(ctx context.Context, filters []host.Filter, now int64, yield func(host.PubKey)) error {
	var q query
	n, _, err := s.compose(ctx, &q, stored, filters, now, false)
	if err != nil || n == 0 {
		return err
	}
	sql := "SELECT e.pubkey FROM (SELECT DISTINCT u.seq FROM (" + q.String() + ") u) d JOIN event e ON e.seq = d.seq"
	return s.each(ctx, metrics.Authors, sql, q.args, func(rows pgx.Rows) error {
		var pubkey pgtype.DriverBytes
		if err := rows.Scan(&pubkey); err != nil {
			return err
		}
		yield(host.PubKey(pubkey))
		return nil
	})
}

// Scan calls yield for each event that matches, up to limit of them, and returns how many they
// were. A caller that must know whether there are more asks for one more. Every event with a
// Seq up to seq was visible to it. yield must not wait.
//
// The order is that of answers.
func (s *Store) Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(createdAt int64, id host.ID)) (seq int64, n int, err error) {
	if f.Limit >= 0 {
		limit = min(limit, f.Limit)
	}
	f.Limit = max(limit, 0)
	var part query
	parts, _, err := s.compose(ctx, &part, stored, []host.Filter{f}, now, true)
	if err != nil {
		return 0, 0, err
	}
	sql := "SELECT NULL::bytea AS place, seq FROM total"
	if parts > 0 {
		sql = "SELECT r.place, r.seq FROM (" + sql + " UNION ALL SELECT u.place, u.seq FROM (" + part.String() + ") u) r ORDER BY r.place NULLS FIRST"
	}
	seq = -1
	err = s.each(ctx, metrics.Scan, sql, part.args, func(rows pgx.Rows) error {
		if seq < 0 {
			return rows.Scan(nil, &seq)
		}
		var b pgtype.DriverBytes
		if err := rows.Scan(&b, nil); err != nil {
			return err
		}
		if len(b) != sortKeySize {
			return errors.New("index rows are damaged: run `talon check`")
		}
		n++
		yield(parseSortKey(b))
		return nil
	})
	return seq, n, err
}

// Export calls yield with the JSON of every stored event, oldest first: the reverse of the
// order of answers. Events that have expired, but were not swept yet, are among them. yield
// may wait. Export ends at an error of yield and returns it as it is.
//
// It reads piece by piece. An event that is stored during the export may be among them or not.
func (s *Store) Export(ctx context.Context, yield func(json []byte) error) error {
	last := under(0)
	for {
		var seqs []int64
		err := s.each(ctx, metrics.Export, `SELECT place, seq FROM event WHERE place < $1 ORDER BY place DESC LIMIT $2`, []any{last, fetchRows}, func(rows pgx.Rows) error {
			var seq int64
			err := rows.Scan(&last, &seq)
			seqs = append(seqs, seq)
			return err
		})
		if err != nil || len(seqs) == 0 {
			return err
		}
		if err := s.Fetch(ctx, seqs, func(_ int64, json []byte) error { return yield(json) }); err != nil {
			return err
		}
	}
}

// DeletedAddress reports whether a deletion stands against a version of the address of that
// time, or a request of the author to vanish.
func (s *Store) DeletedAddress(ctx context.Context, a host.Address, createdAt int64) (deleted bool, err error) {
	const sql = `SELECT EXISTS (SELECT 1 FROM deleted_address WHERE key = $1 AND until >= $2) OR EXISTS (SELECT 1 FROM vanished WHERE pubkey = $3 AND until >= $2)`
	_, err = s.first(ctx, metrics.Deleted, sql, []any{s.keys.key(nameAddress, a.String()), createdAt, a.PubKey[:]}, &deleted)
	return deleted, err
}
