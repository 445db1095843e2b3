package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"talon/host"
	"talon/host/contain"
	"talon/host/store/semantics"
	"talon/host/store/textcache"
)

// FileName is the database's name where only a directory is given.
const FileName = "talon.db"

// Options tune a store. The zero value means the defaults.
type Options struct {
	Readers     int   // reading connections; default 4
	WriterCache int64 // bytes of pages that the writer keeps; default 64 MiB
	ReaderCache int64 // bytes of pages that each reader keeps; default 4 MiB
	Map         int64 // bytes of the file that readers map; default 2 GiB, which is SQLite's most, negative for none
	EventCache  int64 // bytes of events' JSON that are remembered; default 32 MiB, negative for none
	Held        HeldLimits
	Log         *slog.Logger

	tune *tuning
}

func (o *Options) setDefaults() {
	if o.Readers <= 0 {
		o.Readers = 4
	}
	o.WriterCache = cmp.Or(o.WriterCache, 64<<20)
	o.ReaderCache = cmp.Or(o.ReaderCache, 4<<20)
	o.Map = max(cmp.Or(o.Map, 1<<31), 0)
	o.EventCache = cmp.Or(o.EventCache, 32<<20)
	o.Held.SetDefaults()
	o.tune = cmp.Or(o.tune, &defaultTuning)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
}

// furtherCache is the bytes of pages that each reading connection keeps which is there
// only because reads wait for each other.
const furtherCache = 1 << 20

// Open opens the database at path for reading and writing, creating it or
// bringing it to the present schema first. If path does not end in ".db" it is a
// directory that holds the file, and is created too. Errors name what is wrong
// with which file; see [ErrInUse], [ErrNewer], [ErrForeign].
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	opts.setDefaults()
	file, err := locate(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, explain(filepath.Dir(file), err)
	}
	s := &Store{path: file, log: opts.Log, tune: opts.tune, queue: newReadQueue(opts.Readers), closed: make(chan struct{}), eventCache: textcache.New(opts.EventCache), heldLimits: opts.Held}
	s.panics = contain.New(contain.Store, opts.Log)
	s.metrics = newMetrics(s)
	if s.lock, err = lock(file); err != nil {
		return nil, err
	}
	if err := hideFromOthers(file); err != nil {
		return nil, errors.Join(explain(file, err), s.Close())
	}
	if err := s.openWriter(ctx, opts); err != nil {
		return nil, errors.Join(explain(file, err), s.Close())
	}
	if err := s.openReaders(ctx, opts, "rw"); err != nil {
		return nil, errors.Join(explain(file, err), s.Close())
	}
	return s, nil
}

// hideFromOthers makes the database readable for its owner alone: it holds what purgatory and
// policies keep from clients. SQLite gives its log the mode of the database.
func hideFromOthers(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		err := os.Chmod(file+suffix, 0o600)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// OpenReadOnly opens an existing database for reading, even while another process has it open
// for writing. Begin fails.
func OpenReadOnly(ctx context.Context, path string, opts Options) (*Store, error) {
	opts.setDefaults()
	file, err := locate(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); err != nil {
		return nil, explain(file, err)
	}
	s := &Store{path: file, log: opts.Log, tune: opts.tune, queue: newReadQueue(opts.Readers), closed: make(chan struct{}), eventCache: textcache.New(opts.EventCache), heldLimits: opts.Held}
	s.panics = contain.New(contain.Store, opts.Log)
	s.metrics = newMetrics(s)
	// SQLite must replay a log that a crash left. For that it needs to write files next to the
	// database, even if nothing changes in the database itself.
	err = s.openReaders(ctx, opts, "rw")
	if c := code(err); c == sqlite3.ErrCantOpen || c == sqlite3.ErrReadonly || c == sqlite3.ErrPerm {
		err = errors.Join(s.closeReaders())
		if err == nil {
			s.queue = newReadQueue(opts.Readers)
			err = s.openReaders(ctx, opts, "ro")
		}
	}
	if err != nil {
		return nil, errors.Join(explain(file, err), s.Close())
	}
	return s, nil
}

// Path returns the database file.
func (s *Store) Path() string { return s.path }

// locate returns the file that path means.
func locate(path string) (string, error) {
	if path == "" {
		return "", errors.New("no path to a database given")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if filepath.Ext(abs) != ".db" {
		return filepath.Join(abs, FileName), nil
	}
	if info, err := os.Stat(abs); err == nil && info.IsDir() {
		return filepath.Join(abs, FileName), nil
	}
	return abs, nil
}

func (s *Store) openWriter(ctx context.Context, opts Options) error {
	c, err := dial(s.path, "rwc", "busy_timeout = 2000")
	if err != nil {
		return err
	}
	s.writer = &writer{conn: c, tune: opts.tune, heldKinds: map[host.Kind]struct{}{}, usage: newUsageOfTx()}
	v, err := c.version()
	if err != nil {
		return err
	}
	if v > Version {
		return fmt.Errorf("%w: it has schema %d, this program knows %d: run the newer version", ErrNewer, v, Version)
	}
	mode, err := c.first(`PRAGMA journal_mode = WAL`)
	if err != nil {
		return err
	}
	if mode == nil || mode[0] != "wal" {
		return errors.New("the file system does not allow write-ahead logging: put the data directory on a local disk")
	}
	for _, p := range []string{
		"synchronous = FULL",
		"wal_autocheckpoint = 0",
		"temp_store = MEMORY",
		fmt.Sprintf("cache_size = %d", -opts.WriterCache>>10),
	} {
		if err := c.script("PRAGMA " + p); err != nil {
			return err
		}
	}
	if err := c.migrate(v, steps); err != nil {
		return err
	}
	if err := s.load(c); err != nil {
		return err
	}
	s.writer.seq = s.total.Load().Seq
	if err := s.loadMerge(c); err != nil {
		return err
	}
	if err := s.loadUsage(c); err != nil {
		return err
	}
	if err := s.writer.loadHeld(); err != nil {
		return err
	}
	rows, err := c.number(ctx, `SELECT count(*) FROM placeholder`)
	if err != nil {
		return err
	}
	s.placeholders.Store(rows)
	s.checkpoint, err = startCheckpointer(s.path, &s.snapshots, s.log, s.metrics)
	return err
}

func (s *Store) openReaders(ctx context.Context, opts Options, mode string) error {
	open := func(cache int64) (*conn, error) {
		return dial(s.path, mode, "query_only = 1", "busy_timeout = 5000", "temp_store = MEMORY",
			fmt.Sprintf("cache_size = %d", -cache>>10),
			fmt.Sprintf("mmap_size = %d", opts.Map))
	}
	s.dialReader = func() (*conn, error) { return open(min(opts.ReaderCache, furtherCache)) }
	for range opts.Readers {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := open(opts.ReaderCache)
		if err != nil {
			return err
		}
		s.queue.add(s.newReader(c))
		if s.total.Load() != nil {
			continue
		}
		v, err := c.version()
		switch {
		case err != nil:
			return err
		case v > Version:
			return fmt.Errorf("%w: it has schema %d, this program knows %d: run the newer version", ErrNewer, v, Version)
		case v < Version:
			return fmt.Errorf("database has schema %d, this program needs %d: let `talon serve` bring it up to date", v, Version)
		}
		if err := s.load(c); err != nil {
			return err
		}
	}
	return nil
}

// load reads what is kept in memory.
func (s *Store) load(c *conn) error {
	var err error
	if s.keys, err = c.keyring(); err != nil {
		return err
	}
	return s.loadTotals(c)
}

// loadTotals reads what each commit changes.
func (s *Store) loadTotals(c *conn) error {
	t, err := c.total()
	if err != nil {
		return err
	}
	s.total.Store(&t)
	at, err := c.nextExpiry()
	if err != nil {
		return err
	}
	s.expiry.Store(at)
	at, err = c.nextHeld()
	s.heldDue.Store(at)
	return err
}

func (c *conn) total() (Total, error) {
	row, err := c.first(`SELECT max(seq, ifnull((SELECT max(seq) FROM event), 0)), events, bytes, held, held_bytes, hidden, hidden_bytes, withheld, vanished FROM total`)
	if err != nil {
		return Total{}, err
	}
	if row == nil {
		return Total{}, errors.New("table total is empty: the database is damaged, restore a backup or import an export")
	}
	return Total{
		Seq: row[0].(int64), Events: row[1].(int64), Bytes: row[2].(int64),
		Held: row[3].(int64), HeldBytes: row[4].(int64),
		Hidden: row[5].(int64), HiddenBytes: row[6].(int64), Withheld: row[7].(int64), Vanished: row[8].(int64),
	}, nil
}

func (c *conn) nextExpiry() (int64, error) {
	const sql = `SELECT min(ifnull((SELECT min(at) FROM expiry), ?1), ifnull((SELECT min(expires) FROM hidden INDEXED BY hidden_expires WHERE expires IS NOT NULL), ?1))`
	row, err := c.first(sql, int64(noExpiry))
	if err != nil {
		return 0, err
	}
	return row[0].(int64), nil
}

// NextExpiry returns the earliest time at which a stored event expires, and
// false if none does. It does not touch the disk.
func (s *Store) NextExpiry() (int64, bool) {
	at := s.expiry.Load()
	return at, at != noExpiry
}

// RemovedTotal returns the number of events that have been removed since Open: replaced, deleted
// or swept. It has risen when the Commit that removes them returns.
func (s *Store) RemovedTotal() int64 { return s.removedTotal.Load() }

// Close waits for the open transaction and for readers, writes the log back into
// the database and releases it. The store must not be used afterwards.
func (s *Store) Close() error {
	var errs []error
	s.writing.Lock()
	defer s.writing.Unlock()
	select {
	case <-s.closed:
		return nil
	default:
		close(s.closed)
	}
	// The writer goes last: it is the one that can write the log back.
	errs = append(errs, s.closeReaders())
	if s.checkpoint != nil {
		errs = append(errs, s.checkpoint.stop())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.conn.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", s.path, err)
	}
	return nil
}

// explain turns an error about a file into one that says what to do.
func explain(path string, err error) error {
	remedy := ""
	switch c := code(err); {
	case errors.Is(err, ErrForeign):
		remedy = "choose another data directory"
	case c == sqlite3.ErrNotADB:
		return fmt.Errorf("%s: %w: choose another data directory, or restore a backup", path, ErrForeign)
	case c == sqlite3.ErrCorrupt:
		remedy = "restore a backup, or export what can be read"
	case c == sqlite3.ErrBusy || c == sqlite3.ErrLocked:
		remedy = "another program has it locked: close it"
	case c == sqlite3.ErrFull:
		remedy = "make room on the disk"
	case errors.Is(err, fs.ErrPermission), c == sqlite3.ErrCantOpen, c == sqlite3.ErrReadonly, c == sqlite3.ErrPerm:
		remedy = "give the user that runs talon the right to read and write it and its directory"
	case errors.Is(err, fs.ErrNotExist):
		remedy = "is the data directory right?"
	}
	msg := err
	if !strings.Contains(err.Error(), path) {
		msg = fmt.Errorf("%s: %w", path, err)
	}
	if remedy == "" {
		return fmt.Errorf("open database %w", msg)
	}
	return fmt.Errorf("open database %w: %s", msg, remedy)
}

// ErrInUse says that another process serves or changes the same database.
var ErrInUse = semantics.ErrInUse

// lock takes the lock that keeps a second process from writing to the database
// at path. SQLite's own locks would let it: they are held for moments, while the
// writer remembers what it has given out. The kernel drops the lock when the
// process ends, however that comes.
func lock(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, explain(name, err)
	}
	if err := claim(f); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		who := ""
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			who = " by process " + pid
		}
		return nil, fmt.Errorf("%s: %w%s: stop it first, or use another data directory", path, ErrInUse, who)
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		f.Close()
		return nil, explain(name, err)
	}
	return f, nil
}

// A process that was killed while it started git leaves the lock to its own copy, for the
// moment until that copy becomes git. A server that is restarted immediately waits for that.
const (
	lockTries = 100
	lockRetry = 10 * time.Millisecond
)

// claim takes the lock, unless another process keeps it.
func claim(f *os.File) error {
	for tries := 1; ; tries++ {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || tries == lockTries {
			return err
		}
		time.Sleep(lockRetry)
	}
}
