package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// applicationID marks SQLite files as ours ("Taln").
const applicationID = 0x54616c6e

// Version is the newest schema this package knows.
var Version = len(steps)

var (
	// ErrNewer says that a newer Talon wrote the database.
	ErrNewer = errors.New("database is from a newer version of Talon")

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
