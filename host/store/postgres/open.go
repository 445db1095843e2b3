package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"talon/host/store/semantics"
	"talon/host/store/textcache"
)

// Options tune a store. The zero value means the defaults.
type Options struct {
	Readers int   // connections that read; default 4
	Texts   int64 // bytes of events' JSON that are remembered; default 32 MiB, negative for none
	Wait    bool  // until who writes to the database has ended, and take its place
	Held    semantics.HeldLimits
	Log     *slog.Logger
	Dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil: the default
}

const (
	// lockClass is the upper half of the keys of advisory locks.
	lockClass = 0x7461_6c6f

	// lockKey is the key of the lock of who writes, one for each schema.
	lockKey = `($1::bigint << 32) | 'meta'::regclass::oid::bigint`

	// leastServer is the server that the statements need.
	leastServer = 150_000

	// turnWait is how long a store waits for the lock of one that has just ended.
	turnWait = 5 * time.Second

	// resolveTime is how long Commit looks for its outcome.
	resolveTime = 15 * time.Second

	// callTime is the most that one exchange of the writer with the server may take.
	callTime = 90 * time.Second

	noExpiry = math.MaxInt64
)

// Store is an open database. Its methods may be called by many goroutines.
type Store struct {
	log     *slog.Logger
	keys    keyring
	most    semantics.HeldLimits
	metrics *metrics
	pool    *pgxpool.Pool
	texts   *textcache.Cache
	closed  chan struct{}

	wait    bool
	cfg     *pgx.ConnConfig // of the writer; nil if read-only
	writing sync.Mutex      // held by the open Tx; guards what follows
	conn    *pgx.Conn       // nil while there is none
	token   []byte          // of the last commit that is known
	unknown []byte          // of one whose outcome is not
	over    error           // why nothing can be written any more

	total   atomic.Pointer[semantics.Total] // as of the last commit; never nil
	expiry  atomic.Int64                    // earliest in event, noExpiry if there is none
	heldDue atomic.Int64                    // when something in purgatory is due, noExpiry if never
	left    atomic.Int64                    // events removed since Open
}

// Open opens the database that a connection string names for reading and writing, making
// its tables or bringing them to the present schema first. They are in the first schema of
// its search_path; without one, in a schema named talon. Errors never have the password.
func Open(ctx context.Context, connection string, o Options) (*Store, error) {
	s, cfg, err := prepare(connection, &o)
	if err != nil {
		return nil, err
	}
	s.cfg = cfg.ConnConfig.Copy()
	for name, value := range map[string]string{
		"statement_timeout": "60s", "lock_timeout": "0", "idle_in_transaction_session_timeout": "60s",
		"tcp_keepalives_idle": "3", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "2", "tcp_user_timeout": "7s",
	} {
		s.cfg.RuntimeParams[name] = value
	}
	if err := s.openWriter(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", place(cfg), err), s.Close())
	}
	if err := s.openPool(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", place(cfg), err), s.Close())
	}
	return s, nil
}

// OpenReadOnly opens an existing database without the right to change it, also beside a
// process that has it open for writing. Begin fails.
func OpenReadOnly(ctx context.Context, connection string, o Options) (*Store, error) {
	s, cfg, err := prepare(connection, &o)
	if err != nil {
		return nil, err
	}
	if err = s.openPool(ctx, cfg); err == nil {
		err = s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return s.inspect(ctx, c.Conn()) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", place(cfg), err), s.Close())
	}
	return s, nil
}

func prepare(connection string, o *Options) (*Store, *pgxpool.Config, error) {
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Texts == 0 {
		o.Texts = 32 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	cfg, err := pgxpool.ParseConfig(connection)
	if err != nil {
		// What it says may have the password in it, if it takes that for something else.
		return nil, nil, errors.New("the connection string of the database cannot be read: postgres://USER@HOST/DATABASE is one")
	}
	params := cfg.ConnConfig.RuntimeParams
	for name, value := range map[string]string{
		"search_path": "talon", "application_name": "talon",
		// Plans must not depend on statistics.
		"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_hashagg": "off", "enable_material": "off", "enable_memoize": "off",
		"plan_cache_mode": "force_generic_plan", "jit": "off", "max_parallel_workers_per_gather": "0",
	} {
		if _, given := params[name]; !given {
			params[name] = value
		}
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if o.Dial != nil {
		cfg.ConnConfig.DialFunc = o.Dial
	}
	s := &Store{log: o.Log, wait: o.Wait, most: o.Held.Filled(), closed: make(chan struct{}), texts: textcache.New(o.Texts)}
	s.total.Store(new(semantics.Total))
	s.metrics = newMetrics(s)
	cfg.MaxConns = int32(o.Readers)
	return s, cfg, nil
}

// place says which database is meant, without a password.
func place(cfg *pgxpool.Config) string {
	c := cfg.ConnConfig
	return (&url.URL{Scheme: "postgres", User: url.User(c.User), Host: net.JoinHostPort(c.Host, fmt.Sprint(c.Port)), Path: "/" + c.Database}).Redacted()
}

func (s *Store) openWriter(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.connectWith(ctx, func(c *pgx.Conn) error {
		var server int
		err := c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&server)
		if err == nil && server < leastServer {
			err = fmt.Errorf("the server is PostgreSQL %d, Talon needs %d or later", server/10_000, leastServer/10_000)
		}
		if err == nil {
			err = prepareSchema(ctx, c)
		}
		if err == nil && s.wait {
			err = s.await(ctx, c)
		}
		return err
	}, func(c *pgx.Conn) error { return migrate(ctx, c) })
}

// await takes the lock of the one that writes, however long that has it.
func (s *Store) await(ctx context.Context, c *pgx.Conn) error {
	var taken bool
	if err := c.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+lockKey+`)`, int64(lockClass)).Scan(&taken); err != nil || taken {
		return err
	}
	s.log.Info("standing by: another Talon writes to the database")
	if _, err := c.Exec(ctx, `SET statement_timeout = 0`); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `SELECT pg_advisory_lock(`+lockKey+`)`, int64(lockClass)); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("stand by: %w", err)
	}
	s.log.Info("the other Talon has ended")
	_, err := c.Exec(ctx, `RESET statement_timeout`)
	return err
}

func (s *Store) openPool(ctx context.Context, cfg *pgxpool.Config) error {
	params := cfg.ConnConfig.RuntimeParams
	params["default_transaction_read_only"], params["statement_timeout"] = "on", "60s"
	// Who ends a read ends the statement on the server, not the connection.
	cfg.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 2 * time.Second}
	}
	var err error
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return cause(err)
	}
	return cause(s.pool.Ping(ctx))
}

// cause returns an error without the connection string that pgx puts before it.
func cause(err error) error {
	var refused *pgconn.ConnectError
	if errors.As(err, &refused) {
		if inner := errors.Unwrap(refused); inner != nil {
			return inner
		}
	}
	return err
}

// connect opens the writing connection, takes the lock and reads what is kept in memory.
// REQUIRES: s.writing.
func (s *Store) connect(ctx context.Context) error {
	nothing := func(*pgx.Conn) error { return nil }
	return s.connectWith(ctx, nothing, nothing)
}

// connectWith is connect with something that comes before the lock, and after it.
func (s *Store) connectWith(ctx context.Context, before, locked func(*pgx.Conn) error) error {
	if s.over != nil {
		return s.over
	}
	c, err := pgx.ConnectConfig(ctx, s.cfg)
	if err != nil {
		return cause(err)
	}
	if err = before(c); err == nil {
		err = s.claim(ctx, c)
	}
	if err == nil {
		err = locked(c)
	}
	if err == nil {
		err = s.inspect(ctx, c)
	}
	var token []byte
	if err == nil {
		err = c.QueryRow(ctx, `SELECT token FROM total`).Scan(&token)
	}
	if err == nil && s.token != nil && string(token) != string(s.token) && (s.unknown == nil || string(token) != string(s.unknown)) {
		s.over = errors.New("another Talon has written to the database meanwhile: start this one again")
		err = s.over
	}
	if err != nil {
		return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	if s.token != nil {
		s.log.Info("connected to the database again")
	}
	s.conn, s.token, s.unknown = c, token, nil
	return nil
}

// claim takes the lock of the one that writes.
func (s *Store) claim(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, fmt.Sprintf(`SET lock_timeout = %d`, turnWait.Milliseconds())); err != nil {
		return err
	}
	_, err := c.Exec(ctx, `SELECT pg_advisory_lock(`+lockKey+`)`, int64(lockClass))
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "55P03" {
		return fmt.Errorf("%w: another Talon writes to it: stop that first, or use another database or schema", semantics.ErrInUse)
	}
	if err != nil {
		return err
	}
	// An operator may have asked for more than "on", but nothing less will do.
	_, err = c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`)
	return err
}

// inspect reads what is kept in memory.
func (s *Store) inspect(ctx context.Context, c *pgx.Conn) error {
	v, _, err := version(ctx, c)
	if err != nil {
		return err
	}
	if v < Version {
		return fmt.Errorf("database has schema %d, this program needs %d: let `talon serve` bring it up to date", v, Version)
	}
	var t semantics.Total
	var secret []byte
	var expiry, due int64
	const sql = `
		SELECT secret, seq, events, bytes, held, held_bytes, ` + nextExpiry + `, ` + nextHeld + ` FROM total, meta`
	if err := c.QueryRow(ctx, sql).Scan(&secret, &t.Seq, &t.Events, &t.Bytes, &t.Held, &t.HeldBytes, &expiry, &due); err != nil {
		return err
	}
	if len(secret) != secretSize {
		return errors.New("database has no secret: it is damaged, restore a backup or import an export")
	}
	copy(s.keys.secret[:], secret)
	s.total.Store(&t)
	s.expiry.Store(expiry)
	s.heldDue.Store(due)
	return nil
}

// When the first event expires, and when the first thing is due in purgatory.
const (
	nextExpiry = `(SELECT coalesce(min(expires), 9223372036854775807) FROM event WHERE expires IS NOT NULL)`
	nextHeld   = `least(
			(SELECT coalesce(min(due), 9223372036854775807) FROM held WHERE NOT dormant),
			(SELECT coalesce(min(due), 9223372036854775807) FROM held WHERE dormant),
			(SELECT coalesce(min(until), 9223372036854775807) FROM held_gone))`
)

// NextExpiry returns the earliest time at which a stored event expires, and false if none
// does. It asks nobody.
func (s *Store) NextExpiry() (int64, bool) {
	at := s.expiry.Load()
	return at, at != noExpiry
}

// NextHeld returns when something in purgatory is due for [Tx.SweepHeld], and false if
// nothing ever is. It asks nobody.
func (s *Store) NextHeld() (int64, bool) {
	at := s.heldDue.Load()
	return at, at != noExpiry
}

// Left counts the events that have been removed since Open: replaced, deleted or swept.
// It has risen when the Commit that removes them returns.
func (s *Store) Left() int64 { return s.left.Load() }

// Total returns what the database holds as of the last commit.
func (s *Store) Total() semantics.Total { return *s.total.Load() }

// Close waits for the open transaction and for reads, and gives the lock back.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	select {
	case <-s.closed:
		return nil
	default:
		close(s.closed)
	}
	if s.pool != nil {
		s.pool.Close()
	}
	s.drop()
	return nil
}

// drop ends the writing connection. REQUIRES: s.writing.
func (s *Store) drop() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.conn.Close(ctx); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		s.log.Debug("close the connection to the database", "err", err)
	}
	s.conn = nil
}
