package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"strconv"
)

// cursor walks a span.
type cursor struct {
	key   []byte
	kind  int64
	size  int    // of the next chunk
	last  []byte // the last sort key read; the next chunk lies behind it
	ended bool   // nothing lies behind it

	recent bool // it is what the memtables have of the span, and not the table
}

// pass notes that a chunk has been read.
func (c *cursor) pass(packed string, asked, width int) {
	if len(packed) >= width {
		c.last = append(c.last[:0], packed[len(packed)-width:]...)
	}
	c.ended = len(packed) < asked*width
	c.size = 2 * asked
}

// open returns cursors for all spans of the plan that have anything, each with
// the first size sort keys read, and calls first with each of them.
func (v *snapshot) open(ctx context.Context, p *plan, size int, first func(c *cursor, packed string) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sql, args := spans.any, list(jsonHex(p.keys), above(p.newest), under(p.oldest), int64(size))
	if p.kinds != nil {
		sql, args = spans.some, append(args, jsonInts(p.kinds))
	} else {
		args = append(args, p.low, p.high)
	}
	width := p.width()
	err := v.each(ctx, sql, args, func(row []driver.Value) error {
		packed, _ := row[2].(string)
		if packed == "" {
			return nil
		}
		if len(packed)%width != 0 {
			return errSortKeys
		}
		c := &cursor{key: p.keys[row[0].(int64)], kind: row[1].(int64)}
		c.pass(packed, size, width)
		if err := first(c, packed); err != nil {
			return err
		}
		return v.pause(ctx)
	})
	if err != nil {
		return err
	}
	v.recentSpans(p, func(key []byte, kind int64, _ int) {
		if err != nil {
			return
		}
		c := &cursor{key: key, kind: kind, last: above(p.newest), recent: true}
		var packed []byte
		if packed, err = v.nextRecent(p, c, size, under(p.oldest)); err == nil {
			err = first(c, string(packed))
		}
	})
	return err
}

// nextRecent reads the chunk behind the last from the memtables.
func (v *snapshot) nextRecent(p *plan, c *cursor, size int, under []byte) ([]byte, error) {
	packed, last, more, err := v.recentSortKeys(c.key, c.kind, c.last, under, size, p.width())
	if last != nil {
		c.last = bytes.Clone(last)
	}
	c.ended, c.size = !more, 2*size
	return packed, err
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
	if c.recent {
		b, err := v.nextRecent(p, c, size, under(p.oldest))
		return string(b), err
	}
	row, err := v.first(spanSortKeys, c.key, c.kind, c.last, under(p.oldest), int64(size))
	if err != nil {
		return "", err
	}
	packed, _ = row[0].(string)
	if len(packed)%p.width() != 0 {
		return "", errSortKeys
	}
	c.pass(packed, size, p.width())
	return packed, nil
}

// further appends the next chunk of each span, as far as it is not older than oldest, and
// returns the spans that have not ended.
func (v *snapshot) further(ctx context.Context, p *plan, spans []*cursor, oldest int64, all []byte) ([]*cursor, []byte, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if len(spans) == 0 {
		return nil, all, nil
	}
	if err := v.pause(ctx); err != nil {
		return nil, nil, err
	}
	var open, table []*cursor
	size := min(spans[0].size, v.chunk(p)) // all have read equally often
	for _, c := range spans {
		if !c.recent {
			table = append(table, c)
			continue
		}
		packed, err := v.nextRecent(p, c, size, under(oldest))
		if err != nil {
			return nil, nil, err
		}
		if all = append(all, packed...); !c.ended {
			open = append(open, c)
		}
	}
	if len(table) == 0 {
		return open, all, nil
	}
	err := v.each(ctx, spansBehind, list(jsonSpans(table), under(oldest), int64(size)), func(row []driver.Value) error {
		packed, _ := row[1].(string)
		if len(packed)%p.width() != 0 {
			return errSortKeys
		}
		c := table[row[0].(int64)]
		if c.pass(packed, size, p.width()); !c.ended {
			open = append(open, c)
		}
		all = append(all, packed...)
		return v.pause(ctx)
	})
	return open, all, err
}

// jsonSpans returns key, kind and last sort key of each span.
func jsonSpans(spans []*cursor) string {
	b := []byte{'['}
	for i, c := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `["`...)
		b = hex.AppendEncode(b, c.key)
		b = append(b, `",`...)
		b = strconv.AppendInt(b, c.kind, 10)
		b = append(b, `,"`...)
		b = hex.AppendEncode(b, c.last)
		b = append(b, `"]`...)
	}
	return string(append(b, ']'))
}

// chunk returns the largest number of rows to read in one step.
func (v *snapshot) chunk(p *plan) int {
	if p.residual == needEvent {
		return v.tune.fullChunk
	}
	return v.tune.maxChunk
}

// errStop ends a walk early.
var errStop = errors.New("enough")
