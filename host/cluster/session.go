package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// callTime is the most that one exchange with the database may take. It is less than a
// lease, so that a connection that hangs is found in time.
const callTime = 3 * time.Second

// session is one connection to the database, with all locks that this node has.
type session struct {
	number int64
	schema string
	lease  time.Duration
	ctx    context.Context // ends when the session is lost
	lose   context.CancelCauseFunc

	mu   sync.Mutex // guards conn
	conn *pgx.Conn

	leaseMu sync.Mutex // guards what follows
	until   time.Time  // with the monotonic clock
	expiry  *time.Timer
}

const createTable = `
CREATE TABLE IF NOT EXISTS node (
	number        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- of a session: each has a higher one than those before
	name          text NOT NULL,
	address       text NOT NULL,
	release       text NOT NULL,
	state         text NOT NULL,
	roles         text NOT NULL, -- with spaces between them
	started       timestamptz NOT NULL,
	seen          timestamptz NOT NULL, -- the last renewal
	lease         interval NOT NULL, -- without a renewal for so long, the session is over
	pid           int NOT NULL, -- of the connection, with the time when it began
	backend_start timestamptz NOT NULL
) WITH (fillfactor = 50)`

// configure reads a connection string. The parameters that the store sets by itself are set
// here as well.
func configure(connection, application string) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(connection)
	if err != nil {
		// What it says may have the password in it.
		return nil, errors.New("the connection string of the database cannot be read: postgres://USER@HOST/DATABASE is one")
	}
	for name, value := range map[string]string{
		"search_path": "talon", "application_name": application, "statement_timeout": "5s", "synchronous_commit": "off",
		"tcp_keepalives_idle": "3", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "2", "tcp_user_timeout": "7s",
	} {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = callTime
	}
	return cfg, nil
}

// open begins a session, after the last one of this process, whose connection ends if it
// still lives.
func (c *Cluster) open(ctx context.Context, last int64) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTime)
	defer cancel()
	conn, err := connect(ctx, c.cfg)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, lease: c.options.Lease}
	asked := time.Now()
	if err := c.register(ctx, s, last); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	s.ctx, s.lose = context.WithCancelCause(context.Background())
	s.expiry = time.AfterFunc(s.lease, func() { _ = s.err() })
	s.extend(asked)
	return s, nil
}

func connect(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	var refused *pgconn.ConnectError
	if errors.As(err, &refused) && errors.Unwrap(refused) != nil {
		err = errors.Unwrap(refused) // without the connection string
	}
	return conn, err
}

// register takes the name, and makes the row and the lock of a session.
func (c *Cluster) register(ctx context.Context, s *session, last int64) error {
	const look = `SELECT coalesce(current_schema(), ''), to_regclass('node') IS NOT NULL AND to_regclass('call') IS NOT NULL`
	var made bool
	if err := s.conn.QueryRow(ctx, look).Scan(&s.schema, &made); err != nil {
		return err
	}
	if !made {
		err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, s.key("table node")); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, createTable); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, createCalls)
			return err
		})
		if err != nil {
			return fmt.Errorf("make the tables of nodes: %w", err)
		}
	}
	if err := s.endStale(ctx, last); err != nil {
		return err
	}
	var ours bool
	if err := s.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, s.key("name "+c.options.Name)).Scan(&ours); err != nil {
		return err
	}
	if !ours {
		return ErrNameInUse
	}
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	err := pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		// A number that a crash of the server takes back could be given twice.
		if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM node WHERE name = $1 OR seen < clock_timestamp() - $2::interval`, c.options.Name, keepLost); err != nil {
			return err
		}
		const insert = `
			INSERT INTO node (name, address, release, state, roles, started, seen, lease, pid, backend_start)
			SELECT $1, $2, $3, $4, '', $5, clock_timestamp(), $6, pid, backend_start
			FROM pg_stat_activity WHERE pid = pg_backend_pid()
			RETURNING number`
		o := c.options
		return tx.QueryRow(ctx, insert, o.Name, o.Address, o.Release, string(state), c.started, o.Lease).Scan(&s.number)
	})
	if err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	_, err = s.conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, s.key(sessionKey(s.number)))
	return err
}

// endStale ends the connections of sessions that were not renewed in time, and that of
// the last one of this process.
func (s *session) endStale(ctx context.Context, last int64) error {
	const sql = `
		SELECT pg_terminate_backend(a.pid)
		FROM node n JOIN pg_stat_activity a ON a.pid = n.pid AND a.backend_start = n.backend_start
		WHERE n.number <> $1 AND (n.number = $2 OR n.seen < clock_timestamp() - n.lease)`
	_, err := s.conn.Exec(ctx, sql, s.number, last)
	return err
}

// key is the key of an advisory lock. The server has one space of them for each database,
// in which schemas must not meet.
func (s *session) key(name string) int64 {
	sum := sha256.Sum256([]byte("talon\x00" + s.schema + "\x00" + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func sessionKey(number int64) string { return fmt.Sprintf("session %d", number) }

// err says whether the session is over. It asks nobody.
func (s *session) err() error {
	if s.ctx.Err() == nil {
		s.leaseMu.Lock()
		over := !time.Now().Before(s.until)
		s.leaseMu.Unlock()
		if over {
			s.lose(fmt.Errorf("%w: it was not renewed in time", ErrLost))
		}
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return nil
}

// extend counts the lease from when the database was asked for it.
func (s *session) extend(asked time.Time) {
	s.leaseMu.Lock()
	defer s.leaseMu.Unlock()
	s.until = asked.Add(s.lease)
	s.expiry.Reset(time.Until(s.until))
}

// exchange exchanges something with the database. A connection on which that fails is over, and
// the session with it. The caller's context must not end an exchange.
func (s *session) exchange(f func(ctx context.Context, conn *pgx.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	err := f(ctx, s.conn)
	if err != nil && (ctx.Err() != nil || s.conn.IsClosed()) {
		s.lose(fmt.Errorf("%w: %w", ErrLost, err))
	}
	return err
}

// renew extends the lease, and ends the sessions of others that have not. It reports whether
// another node asks something of this one.
func (s *session) renew(state State, roles string) (called bool, err error) {
	err = s.exchange(func(ctx context.Context, conn *pgx.Conn) error {
		asked := time.Now()
		const sql = `
			UPDATE node SET seen = clock_timestamp(), state = $2, roles = $3 WHERE number = $1
			RETURNING EXISTS (SELECT 1 FROM call c WHERE c.number = $1 AND c.answer IS NULL)`
		err := conn.QueryRow(ctx, sql, s.number, string(state), roles).Scan(&called)
		if errors.Is(err, pgx.ErrNoRows) {
			s.lose(fmt.Errorf("%w: its row in the database has gone", ErrLost))
			return ErrLost
		}
		if err != nil {
			return err
		}
		s.extend(asked)
		return s.endStale(ctx, 0)
	})
	return called, err
}

// deregister deletes the row of a session that is over.
func (s *session) deregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	_, _ = s.conn.Exec(ctx, `DELETE FROM node WHERE number = $1`, s.number)
}

// close ends the connection of a session that is over.
func (s *session) close() {
	s.leaseMu.Lock()
	s.expiry.Stop()
	s.leaseMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// How often a lock is asked for that another node has.
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
		// Whoever has an end of its own for the statement alone gets the lock only if
		// nobody has it.
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
