package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// How often a lock is asked for that another node has.
const (
	firstAsk = 2 * time.Millisecond
	maxAsk   = 100 * time.Millisecond
	roleAsk  = time.Second
)

// Hold is a lock of this node. It lasts as long as the session.
type Hold struct {
	s       *session
	key     int64
	release sync.Once
}

// Lock acquires a lock that one node has at a time. It waits until ctx ends, also while
// the database is away. Within a node, callers take turns by themselves.
func (c *Cluster) Lock(ctx context.Context, name string) (*Hold, error) {
	return c.lock(ctx, name, firstAsk, maxAsk)
}

func (c *Cluster) lock(ctx context.Context, name string, wait, longest time.Duration) (*Hold, error) {
	for {
		s, err := c.current(ctx)
		if err != nil {
			return nil, err
		}
		h := &Hold{s: s, key: s.key("lock " + name)}
		var ours bool
		err = s.do(func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, h.key).Scan(&ours)
		})
		if ours && err == nil {
			return h, nil
		}
		if err != nil && s.err() == nil {
			return nil, err
		}
		pause(ctx, wait/2+rand.N(wait/2+1))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		wait = min(2*wait, longest)
	}
}

// Number returns the number of the session: every later session has a higher one.
func (h *Hold) Number() int64 { return h.s.number }

// Err returns an error if the lock is lost. It does no I/O: the lease of the session may
// be over, by the monotonic clock, before anybody else can have the lock.
func (h *Hold) Err() error { return h.s.err() }

// Context ends when the lock is lost, or parent ends.
func (h *Hold) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.s.ctx, func() { cancel(context.Cause(h.s.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Confirm asks the database whether the lock is still this node's, which is an error if it
// is not, and whether the session of another number is over.
func (h *Hold) Confirm(other int64) (over bool, err error) {
	err = h.s.do(func(ctx context.Context, conn *pgx.Conn) error {
		// Whoever has an end of its own for the statement alone gets the lock only if
		// nobody has it.
		return conn.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock_shared($1)`, h.s.key(sessionKey(other))).Scan(&over)
	})
	return over, err
}

// Unlock releases the lock. More calls do nothing.
func (h *Hold) Unlock() {
	h.release.Do(func() {
		_ = h.s.do(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, h.key)
			return err
		})
	})
}

// RunAs runs something that one node at a time does, whenever this node is the one. The
// context that run gets ends when the role is lost. If it fails, the role is free, and after a
// moment this node asks for it again. RunAs returns when ctx ends, or run without an error.
func (c *Cluster) RunAs(ctx context.Context, role string, run func(context.Context) error) error {
	if c == nil {
		return run(ctx)
	}
	for ctx.Err() == nil {
		h, err := c.lock(ctx, "role "+role, roleAsk, roleAsk)
		if ctx.Err() != nil || errors.Is(err, errClosed) {
			break
		}
		if err != nil {
			c.log.Warn("ask for a role", "role", role, "err", err)
			pause(ctx, roleAsk)
			continue
		}
		c.log.Info("this node has a role", "role", role)
		c.setRole(role, true)
		term, end := h.Context(ctx)
		err = run(term)
		end()
		c.setRole(role, false)
		lost := h.Err()
		h.Unlock()
		switch {
		case ctx.Err() != nil, lost == nil && err == nil:
			return err
		case lost != nil:
			c.log.Warn("this node has lost a role", "role", role, "err", err)
		default: // the database was away for a moment, say
			c.log.Error("what has a role has failed: it begins anew, on this node or another", "role", role, "err", err)
			pause(ctx, roleAsk)
		}
	}
	return nil
}
