package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// Snapshot is the database as it was at one moment. Writers go on; the log grows until
// Close. It is for one goroutine.
type Snapshot struct {
	s    *Store
	conn *conn
}

// Snapshot takes a snapshot of what is committed.
func (s *Store) Snapshot(ctx context.Context) (*Snapshot, error) {
	s.snapshots.Add(1) // before the first read: the writer must not wait for it
	c, err := dial(s.path, "ro", "busy_timeout = 5000", "query_only = 1", fmt.Sprintf("cache_size = %d", -snapshotCache>>10))
	if err == nil {
		// A transaction that has read keeps its view of the database.
		if err = c.script(`BEGIN`); err == nil {
			_, err = c.number(ctx, `SELECT seq FROM total`)
		}
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}
	if err != nil {
		s.snapshots.Add(-1)
		return nil, fmt.Errorf("take a snapshot of %s: %w", s.path, err)
	}
	return &Snapshot{s: s, conn: c}, nil
}

const (
	// snapshotCache is the bytes of pages that a snapshot keeps: it reads each page once.
	snapshotCache = 1 << 20
	// snapshotStep is how many pages are copied between two looks at the context.
	snapshotStep = 256
)

// Write copies the snapshot into a new file, page by page, so that two copies differ only where
// the database changed between them. It calls progress with pages done and pages in all. The
// copy is checked, but not synced.
func (n *Snapshot) Write(ctx context.Context, path string, progress func(done, total int)) (err error) {
	if path, err = filepath.Abs(path); err != nil { // a URI of a file has no relative path
		return fmt.Errorf("copy the database: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("copy the database: %w", err), os.Remove(path))
		}
	}()
	to, err := dial(path, "rw", "synchronous = OFF", "journal_mode = OFF")
	if err != nil {
		return err
	}
	if err := errors.Join(copyPages(ctx, to.sqlite, n.conn.sqlite, progress), to.close()); err != nil {
		return err
	}
	return checkCopy(ctx, path)
}

func copyPages(ctx context.Context, to, from *sqlite3.SQLiteConn, progress func(done, total int)) error {
	b, err := to.Backup("main", from, "main")
	if err != nil {
		return err
	}
	for done := false; !done && err == nil; {
		if err = context.Cause(ctx); err != nil {
			break
		}
		done, err = b.Step(snapshotStep)
		progress(b.PageCount()-b.Remaining(), b.PageCount())
	}
	return errors.Join(err, b.Finish())
}

// checkCopy asks SQLite whether a file that nobody writes is a sound database.
func checkCopy(ctx context.Context, path string) error {
	name := url.URL{Scheme: "file", Path: path, RawQuery: "_mutex=no&mode=ro&immutable=1"}
	opened, err := (&sqlite3.SQLiteDriver{}).Open(name.String())
	if err != nil {
		return err
	}
	c := &conn{sqlite: opened.(*sqlite3.SQLiteConn), stmts: make(map[string]*stmt)}
	row, err := c.first(`PRAGMA quick_check(1)`)
	if err == nil && (row == nil || row[0] != "ok") {
		err = fmt.Errorf("the copy is damaged: %v", row)
	}
	return errors.Join(err, context.Cause(ctx), c.close())
}

// Close ends the snapshot.
func (n *Snapshot) Close() error {
	err := n.conn.close()
	n.s.snapshots.Add(-1)
	if err != nil {
		return fmt.Errorf("end a snapshot of %s: %w", n.s.path, err)
	}
	return nil
}
