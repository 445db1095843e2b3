package relay

import (
	"context"
	"errors"
	"slices"

	"talon/host"
	"talon/host/wire"
)

// stored returns the filters that ask for stored events, with their limits.
func (c *conn) stored(filters []host.Filter) []host.Filter {
	l := &c.relay.cfg.Limits
	ask := make([]host.Filter, 0, len(filters))
	for _, f := range filters {
		if f.Limit == 0 || f.Empty() {
			continue
		}
		if f.Limit < 0 {
			f.Limit = l.DefaultLimit
		}
		f.Limit = min(f.Limit, l.MaxLimit)
		ask = append(ask, f)
	}
	return c.readBy(ask)
}

func (c *conn) now() int64 { return c.relay.cfg.Now().Unix() }

// selectPage returns what the filters select, and the hint of NIP-67 for it: that it is all, that
// there is more, or "" where that is not known. Of one filter it reads an event more than the
// limit, which tells.
func (c *conn) selectPage(ctx context.Context, filters []host.Filter) (sel host.Selection, hint string, err error) {
	limit := filters[0].Limit
	for i := range filters {
		limit = min(limit, filters[i].Limit)
	}
	if len(filters) == 1 {
		filters[0].Limit++
	}
	if sel, err = c.selectRows(ctx, filters); err != nil {
		return sel, "", err
	}
	switch n := len(sel.Rows); {
	case n < limit, len(filters) == 1 && n == limit:
		return sel, wire.HintFinish, nil // no filter has reached its limit, or none beyond it
	case len(filters) == 1:
		sel.Rows = sel.Rows[:limit]
		return sel, wire.HintMore, nil
	}
	return sel, "", nil
}

func (c *conn) selectRows(ctx context.Context, filters []host.Filter) (host.Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	return c.relay.deps.Store.Select(ctx, filters, c.now())
}

// Sizes of the parts of a stored answer: how much is read in one step, and how much may be queued
// when the next part is read.
const (
	fetchRows  = 128
	fetchBytes = 2 * writeSize
	queueAhead = 4 * writeSize
)

// errPart ends a Fetch that has read enough for now.
var errPart = errors.New("part is full")

// sendRows sends stored events. Between two parts it waits for the client, and holds nothing of the
// store during that time.
func (c *conn) sendRows(ctx context.Context, s *subscription, rows []int64) error {
	for len(rows) > 0 {
		if err := c.waitRoom(queueAhead); err != nil {
			return err
		}
		done, err := c.sendPart(ctx, s, rows[:min(len(rows), fetchRows)])
		if err != nil {
			return err
		}
		rows = rows[done:]
	}
	return nil
}

// sendPart queues the events of the first rows, about fetchBytes of them, and
// returns how many rows it is done with.
func (c *conn) sendPart(ctx context.Context, s *subscription, rows []int64) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	done, sent, size := 0, 0, 0
	frames := getBuffer()
	err := c.relay.deps.Store.Fetch(ctx, rows, func(row int64, json []byte) error {
		at := slices.Index(rows[done:], row)
		if at < 0 {
			return nil
		}
		before := len(frames.b)
		c.appendText(frames, s.prefix, json, closingBracket)
		done += at + 1
		sent++
		size += len(frames.b) - before
		if len(frames.b) >= writeSize {
			if !c.queueFrames(frames) {
				frames = nil
				return errEnded
			}
			frames = getBuffer()
		}
		if size >= fetchBytes {
			return errPart
		}
		return nil
	})
	if frames != nil {
		if len(frames.b) == 0 {
			frames.free()
		} else if !c.queueFrames(frames) {
			return 0, errEnded
		}
	}
	c.flushHere()
	c.relay.metrics.stored.Add(float64(sent))
	c.relay.metrics.out[outEvent].Add(float64(sent))
	switch {
	case errors.Is(err, errPart):
		return done, nil
	case err != nil:
		return 0, err
	}
	return len(rows), nil
}

func (c *conn) queueFrames(frames *buffer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.push(outgoing{frames: frames})
}
