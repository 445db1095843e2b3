package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"fmt"

	"talon/host"
	"talon/host/store/semantics"
)

// applicationID marks SQLite files as ours ("Taln").
const applicationID = 0x54616c6e

// Version is the newest schema this package knows.
var Version = len(steps)

var (
	// ErrNewer says that a newer Talon wrote the database.
	ErrNewer = semantics.ErrNewer

	// ErrForeign says that the file is not a database of Talon.
	ErrForeign = errors.New("not a database of Talon")
)

// version returns the schema version of the database, 0 for an empty one. It
// writes nothing.
func (c *conn) version() (int, error) {
	ctx := context.Background()
	id, err := c.number(ctx, `PRAGMA application_id`)
	if err != nil {
		return 0, err
	}
	objects, err := c.number(ctx, `SELECT count(*) FROM sqlite_schema`)
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0 && objects == 0:
		return 0, nil
	case id != applicationID:
		return 0, ErrForeign
	}
	v, err := c.number(ctx, `SELECT value FROM meta WHERE name = 'version'`)
	return int(v), err
}

// migrate brings the database from version v to the last of the steps, each in a
// transaction of its own, so that a crash leaves one version or the next.
func (c *conn) migrate(v int, steps []string) error {
	for ; v < len(steps); v++ {
		if err := c.step(v, steps[v]); err != nil {
			return fmt.Errorf("migrate to version %d: %w", v+1, errors.Join(err, c.abandon()))
		}
	}
	return nil
}

func (c *conn) step(v int, sql string) error {
	if err := c.script(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	if v == 0 {
		if err := c.found(); err != nil {
			return err
		}
	}
	if err := c.script(sql); err != nil {
		return err
	}
	if fill := fills[v]; fill != nil {
		if err := fill(c); err != nil {
			return err
		}
	}
	if err := c.exec(`UPDATE meta SET value = ? WHERE name = 'version'`, int64(v+1)); err != nil {
		return err
	}
	return c.script(`COMMIT`)
}

// found makes the table that every version has, since it says which one it is.
func (c *conn) found() error {
	secret := make([]byte, secretSize)
	rand.Read(secret)
	err := c.script(fmt.Sprintf(`PRAGMA application_id = %d;
		CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID`, applicationID))
	if err != nil {
		return err
	}
	return c.exec(`INSERT INTO meta VALUES ('version', 0), ('secret', ?)`, secret)
}

// abandon rolls back, if SQLite has not done so on its own.
func (c *conn) abandon() error {
	if c.sqlite.AutoCommit() {
		return nil
	}
	return c.script(`ROLLBACK`)
}

// indexMaintainers adds the index rows that say whom repository announcements list as
// maintainers, of those that are stored and of those in purgatory.
func indexMaintainers(c *conn) error {
	keys, err := c.keyring()
	if err != nil {
		return err
	}
	index := func(text driver.Value, number int64, insert func(r posting) error) error {
		row, _ := text.([]byte)
		e, err := parseRow(row)
		if err != nil {
			return nil // Check reports it
		}
		for _, r := range keys.maintainerPostings(nil, e, number) {
			if err := insert(r); err != nil {
				return err
			}
		}
		return nil
	}
	for last := []byte{}; ; {
		var places [][]byte
		const sql = `SELECT place FROM posting WHERE key = ? AND kind = ? AND place > ? ORDER BY place LIMIT ?`
		err := c.each(context.Background(), sql, list(keyKind, int64(host.KindAnnouncement), last, int64(fetchRows)), func(row []driver.Value) error {
			at, _ := row[0].([]byte)
			places = append(places, bytes.Clone(at))
			return nil
		})
		if err != nil {
			return err
		}
		if len(places) == 0 {
			break
		}
		for _, last = range places {
			seq := parsePlace(last).seq
			row, err := c.first(`SELECT json FROM event WHERE seq = ?`, seq)
			if err != nil {
				return err
			}
			if row == nil {
				continue
			}
			err = index(row[0], seq, func(r posting) error { return c.exec(insertPostings[1], r.key, r.kind, r.place) })
			if err != nil {
				return err
			}
		}
	}
	held, err := c.numbers(`SELECT number FROM held WHERE kind = ?`, int64(host.KindAnnouncement))
	if err != nil {
		return err
	}
	for _, number := range held {
		row, err := c.first(`SELECT json FROM held WHERE number = ?`, number)
		if err != nil {
			return err
		}
		err = index(row[0], number, func(r posting) error {
			return c.exec(`INSERT INTO held_posting VALUES (?, ?, ?, ?)`, r.key, r.place, r.kind, number)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
