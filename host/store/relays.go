package store

import (
	"context"
	"database/sql/driver"
	"fmt"

	"talon/host/store/metrics"
)

// Knowledge about other servers has transactions of its own, like the state of plugins.

// Relays returns what is known about relays, by URL, or about git servers, by domain.
// There are as many sorts of knowledge as callers want, each under a name of its own.
func (s *Store) Relays(ctx context.Context, about string) (map[string][]byte, error) {
	known := make(map[string][]byte)
	err := s.use(ctx, metrics.Relays, func(r *reader) error {
		return r.each(ctx, `SELECT url, json FROM relay WHERE about = ?`, list(about), func(row []driver.Value) error {
			url, _ := row[0].(string)
			if text, ok := row[0].([]byte); ok {
				url = string(text)
			}
			known[url], _ = row[1].([]byte)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("load what is known about servers (%s): %w", about, err)
	}
	return known, nil
}

// Relay returns what is known about one relay, nil if nothing is.
func (s *Store) Relay(ctx context.Context, about, url string) (known []byte, err error) {
	err = s.use(ctx, metrics.Relays, func(r *reader) error {
		return r.each(ctx, `SELECT json FROM relay WHERE about = ? AND url = ?`, list(about, url), func(row []driver.Value) error {
			known, _ = row[0].([]byte)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("load what is known about a server (%s): %w", about, err)
	}
	return known, nil
}

// SaveRelays stores the records of relays, and deletes those with a nil value, in one
// transaction: all or none, and durable when it returns nil.
//
// It waits for the open [Tx], and the next one waits for it.
func (s *Store) SaveRelays(ctx context.Context, about string, relays map[string][]byte) error {
	if len(relays) == 0 {
		return nil
	}
	err := s.changeState(ctx, func(c *conn) error {
		for url, json := range relays {
			if json == nil {
				if _, err := c.change(`DELETE FROM relay WHERE about = ? AND url = ?`, about, url); err != nil {
					return err
				}
				continue
			}
			const sql = `INSERT INTO relay VALUES (?, ?, ?) ON CONFLICT (about, url) DO UPDATE SET json = excluded.json`
			if _, err := c.change(sql, about, url, json); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save what is known about servers (%s): %w", about, err)
	}
	return nil
}
