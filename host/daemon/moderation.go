package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"talon/host/moderation"
)

// loadModeration reads the moderation log, and brings the database and the copy outside it in
// line: each gets the rows that only the other has. So a restored database obeys takedowns that
// are newer than its backup.
func (c *Core) loadModeration(ctx context.Context, data string) error {
	file, copied, damaged, err := moderation.OpenFile(filepath.Join(data, moderation.FileName))
	if err != nil {
		return err
	}
	if damaged > 0 {
		c.log.Warn("lines of the copy of the moderation log cannot be read", "lines", damaged)
	}
	rows, err := c.Store.Moderation(ctx, 0)
	if err != nil {
		return fmt.Errorf("load the moderation log: %w", err)
	}
	c.Moderation.Apply(rows)
	c.copied = file
	if missing := moderation.Missing(copied, rows); len(missing) > 0 {
		added, err := c.mergeModeration(missing)
		if err != nil {
			return err
		}
		c.log.Warn("the database lacked rows of the moderation log: it was restored, and has them now", "rows", len(added))
		c.Moderation.Apply(added)
	}
	return file.Append(c.Moderation.Rows(0))
}

// mergeModeration adds rows to the log of a database on which no pipeline runs.
func (c *Core) mergeModeration(list []moderation.Row) (added []moderation.Row, err error) {
	tx, err := c.Store.Begin()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if added, err = tx.AddModeration(list, time.Now().Unix()); err != nil {
		return nil, err
	}
	return added, tx.Commit()
}

// copyModeration appends rows to the copy outside the database as they come, until ctx ends.
func (c *Core) copyModeration(ctx context.Context) error {
	for after := int64(0); ; {
		changed := c.Moderation.Changed()
		list := c.Moderation.Rows(after)
		switch err := c.copied.Append(list); {
		case err != nil: // the rows come again with the next one, and at the next start
			c.log.Error("keep the copy of the moderation log", "err", err)
		case len(list) > 0:
			after = list[len(list)-1].Number
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
