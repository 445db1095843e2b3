// Package postgres keeps events in PostgreSQL, 15 or later. It gives the same answers as
// SQLite's engine, package store, in the same bytes and the same order: both pass
// storetest.
//
// Invariants:
//
//  1. Commit returns nil when the server has committed, with its synchronous_commit on.
//     If the connection ends during the commit, the outcome is looked up before any
//     answer: table writer has a token of the last commit of each process.
//  2. Processes that write take turns: a transaction of events holds an advisory lock from
//     its beginning to its end, and begins with the commits of others (table log). So its
//     reads and decisions are current. The server ends a transaction that does nothing for
//     idleTime, so that it cannot write late.
//  3. Seqs grow in the order of commits and are never used twice. Each process gets the
//     commits of all others, once, in that order. If the log has a gap, it gets a notice,
//     and the events that have come since.
//  4. A read is one statement, and so one snapshot.
//  5. No text of strangers is in a column of type text: bytea holds every byte, and sorts
//     like Go does, whatever the collation of the database is.
//  6. Plans do not depend on statistics: planner methods that use them are switched off
//     on each connection, and each span of an index is a lateral query of its own.
//
// Index keys of tags and addresses are keyed 128-bit hashes, as in package store.
package postgres

import (
	"cmp"
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
	"github.com/prometheus/client_golang/prometheus"

	"talon/host/contain"
	"talon/host/store/metrics"
	"talon/host/store/semantics"
	"talon/host/store/textcache"
)

// Options tune a store. The zero value means the defaults.
type Options struct {
	Readers    int   // connections that read; default 4
	CacheBytes int64 // bytes of events' JSON that are remembered; default 32 MiB, negative for none
	Wait       bool  // until nobody else writes to the database
	Held       semantics.HeldLimits
	Log        *slog.Logger

	// Application is the name of the connections in pg_stat_activity; default talon. A connection
	// string may give another one.
	Application string

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: the default

	layout *layout       // nil: that of this program
	idle   time.Duration // idleTime
	unused time.Duration // unusedTime
}

func (o *Options) setDefaults() {
	if o.Readers <= 0 {
		o.Readers = 4
	}
	o.CacheBytes = cmp.Or(o.CacheBytes, 32<<20)
	o.Held.SetDefaults()
	o.Application = cmp.Or(o.Application, "talon")
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.layout = cmp.Or(o.layout, &present)
	o.idle = cmp.Or(o.idle, idleTime)
	o.unused = cmp.Or(o.unused, unusedTime)
}

const (
	// lockClass is the upper half of the keys of advisory locks.
	lockClass = 0x7461_6c6f

	// versionClass, with the version of the program added, is the upper half of the key of
	// the lock that those of that version share who write. It is exclusive for who makes the
	// schema one that they cannot work with.
	versionClass = lockClass + 256

	// lockKey is the key of the lock that all who write share, one for each schema. It is
	// exclusive for who waits for them.
	lockKey = `($1::bigint << 32) | 'meta'::regclass::oid::bigint`

	// minServer is the server that the statements need.
	minServer = 150_000

	// lockWait is how long a store waits for the lock of one that has just ended.
	lockWait = 5 * time.Second

	// idleTime is how long a process may hold up the others without going on with its
	// transaction. After that the server rolls the transaction back.
	idleTime = 5 * time.Second

	// unusedTime is how long a reading connection stays open that nobody uses. Each is a process
	// of the server. One stays.
	unusedTime = 30 * time.Second

	// resolveTime is how long Commit looks for its outcome.
	resolveTime = 15 * time.Second

	// callTime is the most that one exchange of the writer with the server may take.
	callTime = 90 * time.Second

	noExpiry = math.MaxInt64
)

// Store is an open database. Its methods may be called by many goroutines.
type Store struct {
	log     *slog.Logger
	layout  *layout
	keys    keyring
	limits  semantics.HeldLimits
	metrics *metrics.Metrics
	panics  *contain.Guard // around what changes the database, and what is remembered of it
	pool    *pgxpool.Pool
	cache   *textcache.Cache
	closed  chan struct{}

	wait    bool
	cfg     *pgx.ConnConfig // of the writer; nil if read-only
	writing sync.Mutex      // held by the open Tx; guards what follows
	conn    *pgx.Conn       // nil while there is none
	known   position        // of the commits of all, those up to this are known here
	turnKey int64           // of the lock of a transaction; never changes after Open
	plugins int64           // total.plugins, as last read

	moderation int64 // number of the last row of the moderation log that is known here

	// As of the last commit that is known.
	total        atomic.Pointer[semantics.Total] // never nil
	expiry       atomic.Int64                    // earliest in event, noExpiry if there is none
	heldDue      atomic.Int64                    // when something in purgatory is due, noExpiry if never
	removedTotal atomic.Int64                    // events removed, ever

	confirmed atomic.Int64 // when what others commit was known in full, unix nanoseconds

	writer   atomic.Int64 // this process in table writer
	readUpTo atomic.Int64 // known.commits
	alone    atomic.Bool  // see Alone
	changed  chan struct{}
	proposed chan struct{} // see PluginsChanged
	saved    chan struct{} // see StateChanged
	reread   atomic.Bool   // what others have saved is to be read from the first save on
	saves    atomic.Int64  // of state, that this process has begun
	others   atomic.Int64  // that write, as last counted
	listened chan struct{} // closed when listen has returned; nil if read-only
	stop     context.CancelFunc
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
		"statement_timeout": "60s", "lock_timeout": "0", "idle_in_transaction_session_timeout": fmt.Sprint(o.idle.Milliseconds()),
		"tcp_keepalives_idle": "3", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "2", "tcp_user_timeout": "7s",
	} {
		s.cfg.RuntimeParams[name] = value
	}
	if err := s.openWriter(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", databaseName(cfg), err), s.Close())
	}
	listener := s.cfg.Copy()
	if err := s.openPool(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", databaseName(cfg), err), s.Close())
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.listened = stop, make(chan struct{})
	go s.listen(listening, listener)
	return s, nil
}

// OpenReadOnly opens an existing database for reading, even while another process has it open
// for writing. Begin fails.
func OpenReadOnly(ctx context.Context, connection string, o Options) (*Store, error) {
	s, cfg, err := prepare(connection, &o)
	if err != nil {
		return nil, err
	}
	if err = s.openPool(ctx, cfg); err == nil {
		err = s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return s.inspect(ctx, c.Conn()) })
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", databaseName(cfg), err), s.Close())
	}
	return s, nil
}

func prepare(connection string, o *Options) (*Store, *pgxpool.Config, error) {
	o.setDefaults()
	cfg, err := pgxpool.ParseConfig(connection)
	if err != nil {
		// The error of the parser may contain the password, if the parser takes it for something
		// else.
		return nil, nil, errors.New("the connection string of the database cannot be read: postgres://USER@HOST/DATABASE is one")
	}
	params := cfg.ConnConfig.RuntimeParams
	for name, value := range map[string]string{
		"search_path": "talon", "application_name": o.Application,
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
	s := &Store{
		log: o.Log, layout: o.layout, wait: o.Wait, limits: o.Held, cache: textcache.New(o.CacheBytes),
		closed: make(chan struct{}), changed: make(chan struct{}, 1), proposed: make(chan struct{}, 1), saved: make(chan struct{}, 1),
	}
	s.total.Store(new(semantics.Total))
	s.panics = contain.New(contain.Store, s.log)
	s.metrics = newMetrics(s)
	s.metrics.Collectors = append(s.metrics.Collectors, s.panics.Collector())
	cfg.MaxConns, cfg.MinConns = int32(o.Readers), 1
	cfg.MaxConnIdleTime, cfg.HealthCheckPeriod = o.unused, o.unused
	return s, cfg, nil
}

// databaseName says which database is meant, without a password.
func databaseName(cfg *pgxpool.Config) string {
	c := cfg.ConnConfig
	return (&url.URL{Scheme: "postgres", User: url.User(c.User), Host: net.JoinHostPort(c.Host, fmt.Sprint(c.Port)), Path: "/" + c.Database}).Redacted()
}

func (s *Store) openWriter(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.connectWith(ctx, func(c *pgx.Conn) error {
		var server int
		err := c.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&server)
		if err == nil && server < minServer {
			err = fmt.Errorf("the server is PostgreSQL %d, Talon needs %d or later", server/10_000, minServer/10_000)
		}
		if err == nil {
			err = s.layout.prepare(ctx, c)
		}
		if err == nil && s.wait {
			err = s.await(ctx, c)
		}
		if err == nil {
			err = s.layout.update(ctx, c)
		}
		if err == nil {
			err = c.QueryRow(ctx, `SELECT `+lockKey, int64(turnClass)).Scan(&s.turnKey)
		}
		if err == nil {
			err = s.inspect(ctx, c)
		}
		return err
	})
	return err
}

// await returns when nobody else writes, however long that takes.
func (s *Store) await(ctx context.Context, c *pgx.Conn) error {
	var taken bool
	if err := c.QueryRow(ctx, `SELECT pg_try_advisory_lock(`+lockKey+`)`, int64(lockClass)).Scan(&taken); err != nil {
		return err
	}
	if !taken {
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
		if _, err := c.Exec(ctx, `RESET statement_timeout`); err != nil {
			return err
		}
	}
	// Another one that stands by must not come between.
	if err := s.claim(ctx, c); err != nil {
		return err
	}
	_, err := c.Exec(ctx, `SELECT pg_advisory_unlock(`+lockKey+`)`, int64(lockClass))
	return err
}

func (s *Store) openPool(ctx context.Context, cfg *pgxpool.Config) error {
	params := cfg.ConnConfig.RuntimeParams
	params["default_transaction_read_only"], params["statement_timeout"] = "on", "60s"
	// A caller that ends a read ends the statement on the server, not the connection.
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

// connect opens the writing connection, and returns the token of the last commit of this
// process. REQUIRES: s.writing.
func (s *Store) connect(ctx context.Context) (token []byte, err error) {
	if token, err = s.connectWith(ctx, func(*pgx.Conn) error { return nil }); err == nil {
		s.log.Info("connected to the database again")
	}
	return token, err
}

// connectWith is connect with something that comes before the lock.
func (s *Store) connectWith(ctx context.Context, before func(*pgx.Conn) error) (token []byte, err error) {
	c, err := pgx.ConnectConfig(ctx, s.cfg)
	if err != nil {
		return nil, cause(err)
	}
	if err = before(c); err == nil {
		err = s.claim(ctx, c)
	}
	if err == nil {
		// Nobody makes it one that this program cannot work with from here on.
		_, _, err = s.layout.read(ctx, c)
	}
	if err == nil {
		token, err = s.join(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	s.conn = c
	return token, nil
}

// claim takes the locks of those who write, and of those of this version, shared with others.
func (s *Store) claim(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, fmt.Sprintf(`SET lock_timeout = %d`, lockWait.Milliseconds())); err != nil {
		return err
	}
	for _, class := range []int64{lockClass, versionClass + int64(s.layout.version())} {
		if _, err := c.Exec(ctx, `SELECT pg_advisory_lock_shared(`+lockKey+`)`, class); err != nil {
			return inUse(err)
		}
	}
	if _, err := c.Exec(ctx, `SET lock_timeout = 0`); err != nil {
		return err
	}
	// An operator may have asked for more than "on", but nothing less will do.
	_, err := c.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`)
	return err
}

// inspect reads what never changes.
func (s *Store) inspect(ctx context.Context, c *pgx.Conn) error {
	v, _, err := s.layout.read(ctx, c)
	if err != nil {
		return err
	}
	if need := s.layout.version(); v < need {
		return fmt.Errorf("database has schema %d, this program needs %d: let `talon serve` bring it up to date", v, need)
	}
	var secret []byte
	if err := c.QueryRow(ctx, `SELECT secret FROM meta`).Scan(&secret); err != nil {
		return err
	}
	if len(secret) != secretSize {
		return errors.New("database has no secret: it is damaged, restore a backup or import an export")
	}
	copy(s.keys.secret[:], secret)
	return nil
}

// When the first event expires, and when the first thing is due in purgatory.
const (
	nextExpiry = `(SELECT coalesce(min(expires), 9223372036854775807) FROM event WHERE expires IS NOT NULL)`
	nextHidden = `(SELECT coalesce(min(expires), 9223372036854775807) FROM hidden WHERE expires IS NOT NULL)`
	nextHeld   = `least(
			(SELECT coalesce(min(due), 9223372036854775807) FROM held WHERE NOT dormant),
			(SELECT coalesce(min(due), 9223372036854775807) FROM held WHERE dormant),
			(SELECT coalesce(min(until), 9223372036854775807) FROM held_gone))`
)

// NextExpiry returns the earliest time at which a stored event expires, and false if none
// does. It does no I/O.
func (s *Store) NextExpiry() (int64, bool) {
	at := s.expiry.Load()
	return at, at != noExpiry
}

// NextHeld returns when something in purgatory is due for [Tx.SweepHeld], and false if
// nothing ever is. It does no I/O.
func (s *Store) NextHeld() (int64, bool) {
	at := s.heldDue.Load()
	return at, at != noExpiry
}

// RemovedTotal returns the number of events that have been removed: replaced, deleted or swept.
// It has risen when the Commit that removes them returns, or is yielded by CatchUp.
func (s *Store) RemovedTotal() int64 { return s.removedTotal.Load() }

// Total returns what the database holds as of the last commit.
func (s *Store) Total() semantics.Total { return *s.total.Load() }

// Ping reports whether the database can be reached.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("reach the database: %w", cause(err))
	}
	return nil
}

// Close waits for the open transaction and for reads.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	select {
	case <-s.closed:
		return nil
	default:
		close(s.closed)
	}
	if s.listened != nil {
		s.stop()
		<-s.listened
	}
	s.deregister()
	if s.pool != nil {
		s.pool.Close()
	}
	s.closeWriter()
	return nil
}

// closeWriter ends the writing connection. REQUIRES: s.writing.
func (s *Store) closeWriter() {
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

func newMetrics(s *Store) *metrics.Metrics {
	return metrics.New(metrics.Log, "Time that an operation takes, the wait for a connection included.", s.total.Load, func() float64 {
		if s.pool == nil {
			return 0
		}
		return float64(s.pool.Stat().AcquiredConns())
	})
}

// Collectors returns the metrics of the store.
func (s *Store) Collectors() []prometheus.Collector { return s.metrics.Collectors }
