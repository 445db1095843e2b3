package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"math"

	"talon/host"
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

// open returns cursors for all spans of the plan that have anything, each with
// the first size sort keys read, and calls first with each of them.
func (v *snapshot) open(ctx context.Context, p *plan, size int, first func(c *cursor, packed string) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sql, args := spans.any, list(jsonHex(p.keys), above(p.newest), under(p.oldest), int64(size))
	if p.kinds != nil {
		sql, args = spans.some, append(args, jsonInts(p.kinds))
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

// chunk returns the largest number of rows to read in one step.
func (v *snapshot) chunk(p *plan) int {
	if p.residual == needEvent {
		return v.tune.fullChunk
	}
	return v.tune.maxChunk
}

// errStop ends a walk early.
var errStop = errors.New("enough")

// every calls yield for each event that matches any of the filters, once, in no
// order. Limits are ignored. n is what yield must know of the events; ids are
// known anyway where the filters have no tags.
func (v *snapshot) every(ctx context.Context, filters []host.Filter, n need, yield func(*match) error) error {
	var seen rowSet
	for i := range filters {
		if empty(&filters[i]) {
			continue
		}
		if err := v.pause(ctx); err != nil {
			return err
		}
		p, err := v.plan(&filters[i])
		if err != nil {
			return err
		}
		once := p.once && len(filters) == 1
		err = v.walk(ctx, p, n, func(m *match) error {
			if !once && !seen.add(m.seq) {
				return nil
			}
			return yield(m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk calls yield for each match of the plan, in order within a span, one span
// after the other. An event may come once for each of its values.
func (v *snapshot) walk(ctx context.Context, p *plan, n need, yield func(*match) error) error {
	if p.filter.IDs != nil {
		return v.byID(p, n, yield)
	}
	size := v.chunk(p)
	if len(p.keys) > 1 {
		size = min(size, v.tune.fullChunk) // the first chunks of all spans are in memory
	}
	var cursors []*cursor
	var chunks []string
	err := v.open(ctx, p, size, func(c *cursor, packed string) error {
		cursors, chunks = append(cursors, c), append(chunks, packed)
		return nil
	})
	if err != nil {
		return err
	}
	for i, c := range cursors {
		if err := v.pause(ctx); err != nil {
			return err
		}
		for packed := chunks[i]; ; {
			if err := v.sortKeys(p, n, []byte(packed), yield); err != nil {
				return err
			}
			if c.ended {
				break
			}
			if packed, err = v.next(ctx, p, c); err != nil {
				return err
			}
		}
		chunks[i] = ""
	}
	return nil
}

// rowSet is a set of row numbers: a bit for each up to the highest. Rows are
// numbered nearly without gaps, so it is small: 125 kB for a million events.
type rowSet []uint64

// add reports whether row was not in the set.
func (s *rowSet) add(row int64) bool {
	word, bit := int(row>>6), uint64(1)<<(row&63)
	if word >= len(*s) {
		*s = append(*s, make([]uint64, word+1-len(*s))...)
	}
	if (*s)[word]&bit != 0 {
		return false
	}
	(*s)[word] |= bit
	return true
}

// sortKey is where an event stands in an answer. In table posting it is bytes that
// sort like answers, newest first, ties by lowest id:
//
//	8  created_at, all bits inverted
//	8  the first bytes of the id     or   32  the id
//	8  seq                            or    8  seq
//
// The long form is that of time, kinds and authors, so that a scan finds the ids
// there. Tags, most of the cost of a write, have the short one. Where it leaves an
// order open, which takes two events of one second whose ids start alike, the ids
// are looked up.
type sortKey struct {
	at     int64
	prefix uint64
	seq    int64
}

const (
	shortSortKey = 24
	longSortKey  = 48
)

func (p sortKey) compare(q sortKey) int {
	switch {
	case p.at > q.at:
		return -1
	case p.at < q.at:
		return 1
	case p.prefix < q.prefix:
		return -1
	case p.prefix > q.prefix:
		return 1
	case p.seq < q.seq:
		return -1
	case p.seq > q.seq:
		return 1
	}
	return 0
}

// before reports whether p comes before q, as far as a sort key says it.
func (p sortKey) before(q sortKey) bool {
	return p.at > q.at || p.at == q.at && p.prefix < q.prefix
}

// tied reports whether the ids must be looked at to order p and q.
func (p sortKey) tied(q sortKey) bool { return p.at == q.at && p.prefix == q.prefix }

func sortKeyOf(createdAt int64, id []byte, seq int64) sortKey {
	return sortKey{createdAt, binary.BigEndian.Uint64(id), seq}
}

// parseSortKey reads either form.
func parseSortKey(b []byte) sortKey {
	return sortKey{
		at:     int64(^binary.BigEndian.Uint64(b)),
		prefix: binary.BigEndian.Uint64(b[8:]),
		seq:    int64(binary.BigEndian.Uint64(b[len(b)-8:])),
	}
}

// idOf returns the id in a long sort key.
func idOf(long []byte) host.ID { return host.ID(long[8:40]) }

func appendSortKey(b []byte, createdAt int64, id []byte, seq int64) []byte {
	b = binary.BigEndian.AppendUint64(b, ^uint64(createdAt))
	b = append(b, id...)
	return binary.BigEndian.AppendUint64(b, uint64(seq))
}

// above sorts before every sort key at or before newest, and after all others.
func above(newest int64) []byte {
	return binary.BigEndian.AppendUint64(nil, ^uint64(max(newest, 0)))
}

// under sorts after every sort key at or after oldest, and before all others.
func under(oldest int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, ^uint64(max(oldest, 0)))
	return append(b, bytes.Repeat([]byte{math.MaxUint8}, longSortKey)...)
}
