package store

import (
	"context"
	"database/sql/driver"
	"slices"

	"talon/host"
	"talon/host/store/metrics"
)

// Count returns how many events match any of the filters. Limits are ignored.
func (s *Store) Count(ctx context.Context, filters []host.Filter, now int64) (total int64, err error) {
	err = s.view(ctx, metrics.Count, now, func(v *snapshot) (err error) {
		total, err = v.count(ctx, filters)
		return err
	})
	return total, err
}

func (v *snapshot) count(ctx context.Context, filters []host.Filter) (total int64, err error) {
	if len(filters) == 1 && len(v.expired) == 0 && !empty(&filters[0]) {
		plans, err := v.plans(&filters[0])
		if err != nil {
			return 0, err
		}
		// Index rows are events only where each event has one.
		if !slices.ContainsFunc(plans, func(p *plan) bool { return !p.once || p.residual != needSortKey || p.filter.IDs != nil }) {
			for _, p := range plans {
				n, err := v.countSpans(ctx, p)
				if err != nil {
					return 0, err
				}
				total += n
			}
			return total, nil
		}
	}
	err = v.every(ctx, filters, needSortKey, func(*match) error {
		total++
		return nil
	})
	return total, err
}

func (v *snapshot) countSpans(ctx context.Context, p *plan) (total int64, err error) {
	var cursors []*cursor
	err = v.open(ctx, p, 1, func(c *cursor, _ string) error {
		cursors = append(cursors, c)
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, c := range cursors {
		if err := v.pause(ctx); err != nil {
			return 0, err
		}
		if c.recent {
			c.last, c.ended = above(p.newest), false
			for !c.ended {
				packed, err := v.nextRecent(p, c, v.tune.maxChunk, under(p.oldest))
				if err != nil {
					return 0, err
				}
				total += int64(len(packed) / p.width())
			}
			continue
		}
		args := []driver.Value{c.key, c.kind, above(p.newest), under(p.oldest)}
		n, err := v.number(ctx, spanCount, args...)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// Authors calls yield with the author of each event that matches any of the
// filters, once for each event: what NIP-45's HyperLogLog is made of. Limits are
// ignored. yield must not wait.
func (s *Store) Authors(ctx context.Context, filters []host.Filter, now int64, yield func(host.PubKey)) error {
	return s.view(ctx, metrics.Authors, now, func(v *snapshot) error {
		return v.every(ctx, filters, needMeta, func(m *match) error {
			yield(m.pubkey)
			return nil
		})
	})
}
