package store

import (
	"context"
	"database/sql/driver"
)

// cursor walks a span.
type cursor struct {
	key   []byte
	kind  int64
	size  int    // of the next chunk
	last  []byte // the last place read; the next chunk lies behind it
	ended bool   // nothing lies behind it

	// What has been read, is selected, and was not taken yet. Not used by walk.
	rows []place
}

// open returns cursors for all spans of the plan that have anything, each with
// the first size places read, and calls first with each of them.
func (v *snapshot) open(ctx context.Context, p *plan, size int, first func(c *cursor, packed string) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sql, args := spans.any, list(jsonHex(p.keys), above(p.newest), under(p.oldest), int64(size))
	if p.kinds != nil {
		sql, args = spans.some, append(args, jsonInts(p.kinds))
	}
	width := p.width()
	return v.each(ctx, sql, args, func(row []driver.Value) error {
		packed, _ := row[2].(string)
		if packed == "" {
			return nil
		}
		if len(packed)%width != 0 {
			return errPlaces
		}
		c := &cursor{key: p.keys[row[0].(int64)], kind: row[1].(int64)}
		c.pass(packed, size, width)
		if err := first(c, packed); err != nil {
			return err
		}
		return v.pause(ctx)
	})
}

// pass notes that a chunk has been read.
func (c *cursor) pass(packed string, asked, width int) {
	if len(packed) >= width {
		c.last = append(c.last[:0], packed[len(packed)-width:]...)
	}
	c.ended = len(packed) < asked*width
	c.size = 2 * asked
}

// next reads the chunk behind the last.
func (v *snapshot) next(ctx context.Context, p *plan, c *cursor) (packed string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := v.pause(ctx); err != nil {
		return "", err
	}
	size := min(c.size, v.chunk(p))
	row, err := v.first(spanPlaces, c.key, c.kind, c.last, under(p.oldest), int64(size))
	if err != nil {
		return "", err
	}
	packed, _ = row[0].(string)
	if len(packed)%p.width() != 0 {
		return "", errPlaces
	}
	c.pass(packed, size, p.width())
	return packed, nil
}

// take makes the selected places of a chunk the cursor's rows.
func (v *snapshot) take(p *plan, c *cursor, packed string) error {
	c.rows = make([]place, 0, len(packed)/p.width())
	_, err := v.places(p, needPlace, packed, func(m *match) error {
		c.rows = append(c.rows, m.place)
		return nil
	})
	return err
}

// fill reads on until the cursor has rows or nothing is left.
func (v *snapshot) fill(ctx context.Context, p *plan, c *cursor) error {
	for len(c.rows) == 0 && !c.ended {
		packed, err := v.next(ctx, p, c)
		if err != nil {
			return err
		}
		if err := v.take(p, c, packed); err != nil {
			return err
		}
	}
	return nil
}

// chunk is the most that may be read at once.
func (v *snapshot) chunk(p *plan) int {
	if p.rest == needEvent {
		return v.tune.chunkFull
	}
	return v.tune.chunkMost
}
