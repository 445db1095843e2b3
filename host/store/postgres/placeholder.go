package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
)

// AddPlaceholder stores that the repository has a ref for an event that is not here, and since
// when, in unix seconds. A placeholder that is stored already stays as it is. Only the caller
// knows the meaning of repo, which has 8 KiB at most. The row is durable when AddPlaceholder
// returns nil. See [semantics.ErrTooManyPlaceholders].
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

// DropPlaceholder deletes placeholders of a repository, all or none, because their events have
// come or the refs have gone. It ignores ids that have no placeholder.
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

// Placeholders calls yield for every placeholder, oldest first. yield may wait, since no
// connection is held while it runs. Placeholders ends at an error of yield and returns it as
// it is.
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
