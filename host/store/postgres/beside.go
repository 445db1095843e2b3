package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// What plugins remember, placeholders and what is known of servers is in transactions of
// its own, beside those of events. What they do may be done twice: so after a connection
// is lost, they are simply run again.

// beside makes one transaction of what change does. It waits for the open [Tx], and the
// next one waits for it.
func (s *Store) beside(ctx context.Context, change func(context.Context, pgx.Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.lock(); err != nil {
		return err
	}
	defer s.writing.Unlock()
	for {
		err := s.retry(func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error { return change(ctx, tx) })
		})
		if !deadlocked(err) { // with another process, which has won
			return err
		}
	}
}

// hash stands for a key that may be too long for an index.
func hash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

// Relays returns what is known about relays, by URL, or about git servers, by domain. There
// are as many sorts of knowledge as callers want, each under a name of its own.
func (s *Store) Relays(ctx context.Context, about string) (map[string][]byte, error) {
	known := make(map[string][]byte)
	err := s.each(ctx, metrics.Relays, `SELECT url, json FROM relay WHERE about = $1`, []any{[]byte(about)}, func(rows pgx.Rows) error {
		var url, json []byte
		err := rows.Scan(&url, &json)
		known[string(url)] = json
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load what is known about servers (%s): %w", about, err)
	}
	return known, nil
}

// Relay returns what is known about one relay, nil if nothing is.
func (s *Store) Relay(ctx context.Context, about, url string) (known []byte, err error) {
	_, err = s.first(ctx, metrics.Relays, `SELECT json FROM relay WHERE about = $1 AND hash = $2`, []any{[]byte(about), hash(url)}, &known)
	if err != nil {
		return nil, fmt.Errorf("load what is known about a server (%s): %w", about, err)
	}
	return known, nil
}

// SaveRelays stores the records of relays, and deletes those with a nil value, in one
// transaction: all or none, and durable when it returns nil.
func (s *Store) SaveRelays(ctx context.Context, about string, relays map[string][]byte) error {
	if len(relays) == 0 {
		return nil
	}
	var gone, hashes, urls, texts [][]byte
	for url, json := range relays {
		if json == nil {
			gone = append(gone, hash(url))
			continue
		}
		hashes, urls, texts = append(hashes, hash(url)), append(urls, []byte(url)), append(texts, json)
	}
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM relay WHERE about = $1 AND hash = ANY($2::bytea[])`, []byte(about), gone); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO relay SELECT $1, * FROM unnest($2::bytea[], $3::bytea[], $4::bytea[])
			ON CONFLICT (about, hash) DO UPDATE SET json = excluded.json`, []byte(about), hashes, urls, texts)
		return err
	})
	if err != nil {
		return fmt.Errorf("save what is known about servers (%s): %w", about, err)
	}
	return nil
}

// AddPlaceholder stores that the repository has a ref for an event that is not here, and
// since when, in unix seconds. One that is stored already stays as it is. What repo means
// is the caller's business; it has 8 KiB at most. The row is durable when it returns nil.
// See [semantics.ErrTooManyPlaceholders].
func (s *Store) AddPlaceholder(ctx context.Context, repo string, id host.ID, since int64) error {
	if len(repo) > semantics.MaxPlaceholderRepo {
		return fmt.Errorf("add placeholder: the repository's key has %d bytes, more than %d", len(repo), semantics.MaxPlaceholderRepo)
	}
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `INSERT INTO placeholder VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`, []byte(repo), hash(repo), id[:], since)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		var have int64
		err = tx.QueryRow(ctx, `UPDATE total SET placeholders = placeholders + 1 RETURNING placeholders`).Scan(&have)
		if err == nil && have > s.limits.Placeholders {
			err = fmt.Errorf("%w: %d is the most", semantics.ErrTooManyPlaceholders, s.limits.Placeholders)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("add placeholder: %w", err)
	}
	return nil
}

// DropPlaceholder deletes placeholders of a repository, all or none: their events have
// come, or the refs have gone. Those that are not there do not matter.
func (s *Store) DropPlaceholder(ctx context.Context, repo string, ids ...host.ID) error {
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM placeholder WHERE hash = $1 AND id = ANY($2::bytea[])`, hash(repo), idBytes(ids))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE total SET placeholders = placeholders - $1`, tag.RowsAffected())
		return err
	})
	if err != nil {
		return fmt.Errorf("drop placeholders: %w", err)
	}
	return nil
}

// Placeholders calls yield for every placeholder, oldest first. yield may wait: no
// connection is held meanwhile. Its error ends Placeholders and is returned as it is.
func (s *Store) Placeholders(ctx context.Context, yield func(repo string, id host.ID, since int64) error) error {
	type placeholder struct {
		repo, hash, id []byte
		since          int64
	}
	const sql = `SELECT repo, hash, id, since FROM placeholder WHERE (since, hash, id) > ($1, $2, $3) ORDER BY since, hash, id LIMIT $4`
	last := placeholder{hash: []byte{}, id: []byte{}, since: math.MinInt64}
	for {
		var part []placeholder
		size := 0
		err := s.each(ctx, metrics.Placeholders, sql, []any{last.since, last.hash, last.id, fetchRows}, func(rows pgx.Rows) error {
			var p placeholder
			if err := rows.Scan(&p.repo, &p.hash, &p.id, &p.since); err != nil {
				return err
			}
			if !bytes.Equal(p.hash, hash(string(p.repo))) {
				return fmt.Errorf("a placeholder of %.100q does not agree with its hash: run `talon check`", p.repo)
			}
			last = p
			part = append(part, p)
			if size += len(p.repo); size >= fetchBytes {
				return io.EOF
			}
			return nil
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(part) == 0 {
			return nil
		}
		for _, p := range part {
			if err := yield(string(p.repo), host.ID(p.id), p.since); err != nil {
				return err
			}
		}
	}
}
