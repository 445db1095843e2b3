package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
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
		// The text of the error may contain the password.
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
