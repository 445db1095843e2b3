package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// callWait is the most that a node waits for the answer of another, which sees the
	// request with its next renewal.
	callWait = 20 * time.Second

	answerEvery = 50 * time.Millisecond // an answer is looked for
	forgetCalls = time.Minute
)

const createCalls = `
CREATE UNLOGGED TABLE IF NOT EXISTS call ( -- requests from node to node
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	number  bigint NOT NULL, -- of the session that is to answer
	request bytea NOT NULL,
	answer  bytea, -- NULL until there is one
	made    timestamptz NOT NULL DEFAULT clock_timestamp()
)`

// Has reports whether this node has a role.
func (c *Cluster) Has(role string) bool { return slices.Contains(c.Roles(), role) }

// Ask has the node that has a role answer a request, which goes through the database. It is an
// error if no node has the role, or the one that does is lost before it has answered.
func (c *Cluster) Ask(ctx context.Context, role string, request []byte) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	n, err := c.Who(ctx, role)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look which node has the role %s: %w", role, err)
	case n.Name == "":
		return nil, fmt.Errorf("no node has the role %s now: try again in some seconds", role)
	}
	s, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	var id int64
	err = s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `DELETE FROM call WHERE made < clock_timestamp() - $1::interval`, forgetCalls); err != nil {
			return err
		}
		const sql = `INSERT INTO call (number, request) VALUES ($1, $2) RETURNING id`
		return conn.QueryRow(ctx, sql, n.Number, request).Scan(&id)
	})
	for alive := true; err == nil; {
		var answered bool
		err = s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
			err := conn.QueryRow(ctx, `DELETE FROM call WHERE id = $1 AND answer IS NOT NULL RETURNING answer`, id).Scan(&answer)
			if !errors.Is(err, pgx.ErrNoRows) {
				answered = err == nil
				return err
			}
			const sql = `SELECT EXISTS (SELECT 1 FROM node WHERE number = $1 AND seen > clock_timestamp() - lease)`
			return conn.QueryRow(ctx, sql, n.Number).Scan(&alive)
		})
		switch {
		case err != nil:
		case answered:
			return answer, nil
		case !alive:
			return nil, fmt.Errorf("node %s, which has the role %s, was lost: try again in some seconds", n.Name, role)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("node %s (%s), which has the role %s, does not answer: %w", n.Name, n.Address, role, context.Cause(ctx))
		default:
			pause(ctx, answerEvery)
		}
	}
	return nil, fmt.Errorf("ask node %s, which has the role %s: %w", n.Name, role, err)
}

// Answer answers what other nodes ask of this one, until ctx ends.
func (c *Cluster) Answer(ctx context.Context, do func(ctx context.Context, request []byte) []byte) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.called:
		}
		s, err := c.current(ctx)
		if err == nil {
			err = s.answer(ctx, do)
		}
		if err != nil && ctx.Err() == nil {
			c.log.Warn("answer what another node asks", "err", err)
		}
	}
}

// answer answers the requests that wait for this session.
func (s *session) answer(ctx context.Context, do func(ctx context.Context, request []byte) []byte) error {
	type call struct {
		id      int64
		request []byte
	}
	var calls []call
	err := s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT id, request FROM call WHERE number = $1 AND answer IS NULL ORDER BY id`, s.number)
		if err == nil {
			calls, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a call, err error) {
				return a, row.Scan(&a.id, &a.request)
			})
		}
		return err
	})
	for _, a := range calls {
		if err != nil {
			break
		}
		doing, cancel := context.WithTimeout(ctx, callWait)
		answer := do(doing, a.request)
		cancel()
		err = s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `UPDATE call SET answer = $2 WHERE id = $1`, a.id, answer)
			return err
		})
	}
	return err
}
