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

// ErrPluginsChanged says that the generation of plugins that a proposal rests on does not
// decide any more.
var ErrPluginsChanged = errors.New("the plugins of the cluster have changed meanwhile")

// proposed is what a notification says when there is something to read in table plugins.
const proposed = "plugins"

// PluginsChanged receives after [Store.Plugins] may have changed, and now and then.
func (s *Store) PluginsChanged() <-chan struct{} { return s.proposed }

// switched yields another generation of plugins than the one that is known. REQUIRES:
// s.writing.
func (s *Store) switched(m *totals, yield func(host.Commit)) {
	if m.plugins != s.plugins {
		s.plugins = m.plugins
		yield(host.Commit{Plugins: m.plugins})
	}
}

// Plugins returns the generation of plugins that decides, and the one that is proposed.
func (s *Store) Plugins(ctx context.Context) (current, next host.PluginSet, err error) {
	const sql = `SELECT p.n, p.node, p.records, p.n = t.plugins FROM plugins p, total t WHERE p.n = t.plugins OR p.refused IS NULL`
	err = s.each(ctx, metrics.Plugins, sql, nil, func(rows pgx.Rows) error {
		var p host.PluginSet
		var decides bool
		err := rows.Scan(&p.Number, &p.Node, &p.Records, &decides)
		if decides {
			current = p
		} else {
			next = p
		}
		return err
	})
	if err != nil {
		return host.PluginSet{}, host.PluginSet{}, fmt.Errorf("read the generations of plugins: %w", err)
	}
	return current, next, nil
}

// PluginModule returns the module with a SHA-256.
func (s *Store) PluginModule(ctx context.Context, sha string) (wasm []byte, err error) {
	found, err := s.first(ctx, metrics.Plugins, `SELECT wasm FROM plugins_module WHERE hash = $1`, []any{sha}, &wasm)
	if err == nil && !found {
		err = errors.New("it is not there")
	}
	if err != nil {
		return nil, fmt.Errorf("read module %s from the database: %w", sha, err)
	}
	return wasm, nil
}

// ProposePlugins proposes a generation after the one with the number base, which decides,
// with the modules that may be new, by their SHA-256. It withdraws any other proposal: one
// node at a time may propose.
func (s *Store) ProposePlugins(ctx context.Context, node string, base int64, records []byte, modules map[string][]byte) (n int64, err error) {
	err = s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var now int64
		if err := tx.QueryRow(ctx, `SELECT plugins FROM total`).Scan(&now); err != nil {
			return err
		}
		if now != base {
			return ErrPluginsChanged
		}
		if _, err := tx.Exec(ctx, `UPDATE plugins SET refused = 'the node that proposed it has gone' WHERE refused IS NULL`); err != nil {
			return err
		}
		for hash, wasm := range modules {
			if _, err := tx.Exec(ctx, `INSERT INTO plugins_module VALUES ($1, $2) ON CONFLICT DO NOTHING`, hash, wasm); err != nil {
				return err
			}
		}
		const sql = `INSERT INTO plugins SELECT greatest(max(n), $1) + 1, $2, $3 FROM plugins RETURNING n`
		if err := tx.QueryRow(ctx, sql, base, node, records).Scan(&n); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, s.channel(), proposed)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("propose plugins: %w", err)
	}
	return n, nil
}

// AnswerPlugins stores why a node cannot run a generation that is proposed; an empty
// problem says that it can.
func (s *Store) AnswerPlugins(ctx context.Context, n int64, node, problem string) error {
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO plugins_answer VALUES ($1, $2, $3) ON CONFLICT (n, node) DO UPDATE SET problem = $3`, n, node, problem)
		return err
	})
	if err != nil {
		return fmt.Errorf("answer a proposal of plugins: %w", err)
	}
	return nil
}

// PluginAnswers returns what nodes have answered, by name.
func (s *Store) PluginAnswers(ctx context.Context, n int64) (map[string]string, error) {
	answers := map[string]string{}
	err := s.each(ctx, metrics.Plugins, `SELECT node, problem FROM plugins_answer WHERE n = $1`, []any{n}, func(rows pgx.Rows) error {
		var node, problem string
		err := rows.Scan(&node, &problem)
		answers[node] = problem
		return err
	})
	return answers, err
}

// SettlePlugins ends a proposal: refused says why it does not decide. If that is empty, it
// decides about all that any process commits after this: each learns it as it begins a
// transaction, see [Store.CatchUp]. Modules that are not among keep are forgotten.
func (s *Store) SettlePlugins(ctx context.Context, n int64, refused string, keep []string) error {
	err := s.beside(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, s.turnKey); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE plugins SET refused = $2 WHERE n = $1 AND (refused IS NULL OR refused = $2)`, n, refused)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return ErrPluginsChanged
		}
		if refused == "" {
			if _, err := tx.Exec(ctx, `UPDATE total SET plugins = $1`, n); err != nil {
				return err
			}
		}
		for _, clean := range []struct {
			sql  string
			args []any
		}{
			{`DELETE FROM plugins_answer WHERE n <= $1`, []any{n}},
			{`DELETE FROM plugins WHERE n < (SELECT plugins FROM total)`, nil},
			{`DELETE FROM plugins_module WHERE NOT hash = ANY($1)`, []any{keep}},
			{`SELECT pg_notify($1, $2)`, []any{s.channel(), proposed}},
			{`SELECT pg_notify($1, 'plugins decide')`, []any{s.channel()}},
		} {
			if _, err := tx.Exec(ctx, clean.sql, clean.args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("decide a proposal of plugins: %w", err)
	}
	return nil
}
