package store

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"math"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// A placeholder is a ref refs/nostr/<event id> that was pushed before its event (GRASP-01).
// Placeholders have transactions of their own, separate from those of events: the stored
// events do not depend on them.

// maxPlaceholderRepo bounds the key of a repository, in bytes.
const maxPlaceholderRepo = semantics.MaxPlaceholderRepo

// ErrTooManyPlaceholders says that there is no room for another placeholder.
var ErrTooManyPlaceholders = semantics.ErrTooManyPlaceholders

// AddPlaceholder stores that the repository has a ref for an event that is not here, and since
// when, in unix seconds. A placeholder that is stored already stays as it is. Only the caller
// knows the meaning of repo, which has 8 KiB at most. The row is durable when AddPlaceholder
// returns nil. See [ErrTooManyPlaceholders].
//
// It waits for the open [Tx], and the next one waits for it.
func (s *Store) AddPlaceholder(ctx context.Context, repo string, id host.ID, since int64) error {
	if len(repo) > maxPlaceholderRepo {
		return fmt.Errorf("add placeholder: the repository's key has %d bytes, more than %d", len(repo), maxPlaceholderRepo)
	}
	added := int64(0)
	err := s.changeState(ctx, func(c *conn) (err error) {
		added, err = c.change(`INSERT OR IGNORE INTO placeholder VALUES (?, ?, ?)`, []byte(repo), id[:], since)
		if have := s.placeholders.Add(added); err == nil && have > s.heldLimits.Placeholders && added > 0 {
			return fmt.Errorf("%w: %d is the most", ErrTooManyPlaceholders, s.heldLimits.Placeholders)
		}
		return err
	})
	if err != nil {
		s.placeholders.Add(-added)
		return fmt.Errorf("add placeholder: %w", err)
	}
	return nil
}

// DropPlaceholder deletes placeholders of a repository, all or none, because their events have
// come or the refs have gone. It ignores ids that have no placeholder.
//
// It waits for the open [Tx], and the next one waits for it. Callers split long lists.
func (s *Store) DropPlaceholder(ctx context.Context, repo string, ids ...host.ID) error {
	dropped := int64(0)
	err := s.changeState(ctx, func(c *conn) error {
		for _, id := range ids {
			n, err := c.change(`DELETE FROM placeholder WHERE repo = ? AND id = ?`, []byte(repo), id[:])
			if err != nil {
				return err
			}
			dropped += n
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("drop placeholders: %w", err)
	}
	s.placeholders.Add(-dropped)
	return nil
}

// Placeholders calls yield for every placeholder, oldest first. yield may wait, since no
// reader is held while it runs. Placeholders ends at an error of yield and returns it as it
// is.
func (s *Store) Placeholders(ctx context.Context, yield func(repo string, id host.ID, since int64) error) error {
	type placeholder struct {
		repo  string
		id    host.ID
		since int64
	}
	last := placeholder{since: math.MinInt64}
	for {
		var part []placeholder
		err := s.use(ctx, metrics.Placeholders, func(r *reader) error {
			const sql = `
				SELECT since, repo, id FROM placeholder INDEXED BY placeholder_since
				WHERE (since, repo, id) > (?, ?, ?) ORDER BY since, repo, id LIMIT ?`
			size := 0
			return r.each(context.Background(), sql, list(last.since, []byte(last.repo), last.id[:], int64(fetchRows)), func(row []driver.Value) error {
				since, _ := row[0].(int64)
				repo, _ := row[1].([]byte)
				id, _ := row[2].([]byte)
				if len(id) != len(host.ID{}) {
					return fmt.Errorf("a placeholder of %.100q is for an id of %d bytes: run `talon check`", repo, len(id))
				}
				last = placeholder{string(repo), host.ID(id), since}
				part = append(part, last)
				if size += len(repo); size >= fetchBytes {
					return io.EOF
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			return nil
		}
		for _, p := range part {
			if err := yield(p.repo, p.id, p.since); err != nil {
				return err
			}
		}
	}
}
