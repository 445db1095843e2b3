package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"talon/host"
	"talon/host/store/metrics"
)

// ErrPluginsChanged says that the generation of plugins that a proposal rests on does not
// decide any more.
var ErrPluginsChanged = errors.New("the plugins of the cluster have changed meanwhile")

// proposed is what a notification says when there is something to read in table plugins.
const proposed = "plugins"

// PluginsChanged receives after [Store.Plugins] may have changed, and now and then.
func (s *Store) PluginsChanged() <-chan struct{} { return s.proposed }

// switched yields another generation of plugins than the one that is known, and new rows of the
// moderation log. REQUIRES: s.writing.
func (s *Store) switched(m *totals, yield func(host.Commit)) error {
	if m.moderation > s.moderation {
		lines, err := s.moderationLines(context.Background(), s.moderation)
		if err != nil {
			return err
		}
		s.moderation = m.moderation
		yield(host.Commit{Moderation: lines})
	}
	if m.plugins != s.plugins {
		s.plugins = m.plugins
		yield(host.Commit{Plugins: m.plugins})
	}
	return nil
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
