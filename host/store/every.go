package store

import (
	"context"

	"talon/host"
)

// every calls yield for each event that matches any of the filters, once, in no
// order. Limits are ignored. n is what yield must know of the events.
func (v *snapshot) every(ctx context.Context, filters []host.Filter, n need, yield func(*match) error) error {
	var seen rowSet
	for i := range filters {
		if empty(&filters[i]) {
			continue
		}
		if err := v.pause(ctx); err != nil {
			return err
		}
		plans, err := v.plans(&filters[i])
		if err != nil {
			return err
		}
		for _, p := range plans {
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
