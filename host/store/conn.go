package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"
)

// conn is one connection to the database. One goroutine uses it at a time.
type conn struct {
	sqlite *sqlite3.SQLiteConn
	stmts  map[string]*stmt // prepared so far, by text
	work   int              // what has been read so far, in pieces of [workTime]
}

// dial opens path; mode is an access mode of SQLite: ro, rw or rwc.
func dial(path, mode string, pragmas ...string) (*conn, error) {
	name := url.URL{Scheme: "file", Path: path, RawQuery: "_mutex=no&mode=" + mode}
	c, err := (&sqlite3.SQLiteDriver{}).Open(name.String())
	if err != nil {
		return nil, err
	}
	out := &conn{sqlite: c.(*sqlite3.SQLiteConn), stmts: make(map[string]*stmt)}
	for _, p := range pragmas {
		if err := out.script("PRAGMA " + p); err != nil {
			return nil, errors.Join(fmt.Errorf("set %s: %w", p, err), out.close())
		}
	}
	return out, nil
}

// script runs statements that are not worth preparing.
func (c *conn) script(sql string) error {
	_, err := c.sqlite.Exec(sql, nil)
	return err
}

// stmt returns the prepared statement for a text.
func (c *conn) stmt(sql string) (*stmt, error) {
	if s := c.stmts[sql]; s != nil {
		return s, nil
	}
	// SQLite takes the value of a parameter that is a limit for a part of the plan, and
	// prepares the statement again for the next value. It does not look into expressions.
	p, err := c.sqlite.Prepare(strings.ReplaceAll(sql, "LIMIT ?", "LIMIT +?"))
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", strings.Join(strings.Fields(sql), " "), err)
	}
	s := &stmt{sqlite: p.(*sqlite3.SQLiteStmt)}
	s.args = make([]driver.NamedValue, p.NumInput())
	for i := range s.args {
		s.args[i].Ordinal = i + 1
	}
	c.stmts[sql] = s
	return s, nil
}

func (c *conn) exec(sql string, args ...driver.Value) error {
	_, err := c.change(sql, args...)
	return err
}

// change runs a statement and returns how many rows it changed.
func (c *conn) change(sql string, args ...driver.Value) (int64, error) {
	s, err := c.stmt(sql)
	if err != nil {
		return 0, err
	}
	r, err := s.sqlite.ExecContext(context.Background(), s.bind(args))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// first returns the first row, nil if there is none.
func (c *conn) first(sql string, args ...driver.Value) (row []driver.Value, err error) {
	err = c.each(context.Background(), sql, args, func(r []driver.Value) error {
		row = r
		return io.EOF
	})
	return row, err
}

// number returns the first column of the first row, 0 where that is NULL.
func (c *conn) number(ctx context.Context, sql string, args ...driver.Value) (n int64, err error) {
	err = c.each(ctx, sql, args, func(r []driver.Value) error {
		n, _ = r[0].(int64)
		return io.EOF
	})
	c.work += int(n / countedRows)
	return n, err
}

// each calls yield for every row until it returns an error; io.EOF ends without
// one. The slice is the next row's too, its values are the caller's.
//
// A statement that may run for long gets a context that can end: that costs a
// microsecond, which all others save by context.Background.
func (c *conn) each(ctx context.Context, sql string, args []driver.Value, yield func(row []driver.Value) error) (err error) {
	s, err := c.stmt(sql)
	if err != nil {
		return err
	}
	rows, err := s.sqlite.QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	if s.dest == nil {
		s.dest = make([]driver.Value, len(rows.Columns()))
	}
	c.work += 1 + size(args)/argumentBytes
	for {
		err := rows.Next(s.dest)
		if err == nil {
			c.work += 1 + size(s.dest)/columnBytes
			err = yield(s.dest)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// size is the length of texts and blobs.
func size(values []driver.Value) (n int) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// list makes the arguments that each takes.
func list(v ...driver.Value) []driver.Value { return v }

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.sqlite.Close())
	}
	return errors.Join(append(errs, c.sqlite.Close())...)
}

type stmt struct {
	sqlite *sqlite3.SQLiteStmt
	args   []driver.NamedValue
	dest   []driver.Value
}

func (s *stmt) bind(args []driver.Value) []driver.NamedValue {
	for i, v := range args {
		s.args[i].Value = v
	}
	return s.args
}

// code returns SQLite's primary error code, 0 for other errors.
func code(err error) sqlite3.ErrNo {
	var e sqlite3.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}
