package cluster

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Times between two attempts to get a lock that another node has.
const (
	firstAsk = 2 * time.Millisecond
	maxAsk   = 100 * time.Millisecond
	roleAsk  = time.Second
)

// HeldLock is a lock of this node. It lasts as long as the session.
type HeldLock struct {
	s       *session
	key     int64
	release sync.Once
}

// Lock acquires a lock that one node has at a time. It waits until ctx ends, also while
// the database is away. Within a node, callers take turns by themselves.
func (c *Cluster) Lock(ctx context.Context, name string) (*HeldLock, error) {
	return c.lock(ctx, name, firstAsk, maxAsk)
}

func (c *Cluster) lock(ctx context.Context, name string, wait, longest time.Duration) (*HeldLock, error) {
	for {
		s, err := c.current(ctx)
		if err != nil {
			return nil, err
		}
		h := &HeldLock{s: s, key: s.key("lock " + name)}
		var ours bool
		err = s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
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
func (h *HeldLock) Number() int64 { return h.s.number }

// Err returns an error if the lock is lost. It does no I/O: the lease of the session may
// be over, by the monotonic clock, before anybody else can have the lock.
func (h *HeldLock) Err() error { return h.s.err() }

// Context ends when the lock is lost, or parent ends.
func (h *HeldLock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	stop := context.AfterFunc(h.s.ctx, func() { cancel(context.Cause(h.s.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Confirm asks the database whether the lock is still this node's, which is an error if it
// is not, and whether the session of another number is over.
func (h *HeldLock) Confirm(other int64) (over bool, err error) {
	err = h.s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
		// A reader with an end for the statement alone gets the lock only if nobody has it.
		return conn.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock_shared($1)`, h.s.key(sessionKey(other))).Scan(&over)
	})
	return over, err
}

// Unlock releases the lock. More calls do nothing.
func (h *HeldLock) Unlock() {
	h.release.Do(func() {
		_ = h.s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, h.key)
			return err
		})
	})
}
