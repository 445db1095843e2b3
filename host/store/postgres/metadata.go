package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host/store/metrics"
)

// State of plugins, placeholders and knowledge about servers have transactions of their own,
// separate from those of events. These transactions may run twice without harm. So after a
// lost connection they simply run again.

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

// hash returns a short key for one that may be too long for an index.
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
