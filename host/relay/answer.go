package relay

import (
	"context"
	"errors"
	"slices"

	"talon/host"
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
	return ask
}

func (c *conn) now() int64 { return c.relay.cfg.Now().Unix() }

func (c *conn) selectRows(ctx context.Context, filters []host.Filter) (host.Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	return c.relay.deps.Store.Select(ctx, filters, c.now())
}

// How much of a stored answer is read at once, and how much of it may lie in the
// queue before the next part is read.
const (
	fetchRows  = 256
	fetchBytes = 2 * writeSize
	queueAhead = 4 * writeSize
)

// errPart ends a Fetch that has read enough for now.
var errPart = errors.New("part is full")

// sendRows sends stored events. Between two parts it waits for the client, and
// holds nothing of the store meanwhile.
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

// answered tells which events that are published the stored answer has dealt with.
//
// The answer is that of the filters which ask for stored events. What the query saw
// and a filter with limit 0 wants is therefore still to be sent, unless it is among
// the rows: a row is a Seq.
type answered struct {
	done int64 // what was published with a Seq up to this is past
	seq  int64 // the query saw what has a Seq up to this

	// news are the filters with limit 0, if there are others beside them. rows are
	// those of the stored answer that may yet be published, ascending; without news
	// they do not matter.
	news []*watch
	rows []int64
}

// rowsKept is how many rows of its answer a subscription remembers at most when it
// has become live: about as many as are committed and not published.
const rowsKept = 1024

// by notes the answer to the query. Before that, nothing has been answered.
func (a *answered) by(sel *host.Selection, watches []watch) {
	a.seq = sel.Seq
	for i := range watches {
		if watches[i].filter.Limit == 0 {
			a.news = append(a.news, &watches[i])
		}
	}
	if a.news == nil {
		return
	}
	for _, row := range sel.Rows {
		if row > a.done {
			a.rows = append(a.rows, row)
		}
	}
	slices.Sort(a.rows)
}

// has reports whether the event must not be sent any more.
func (a *answered) has(p *host.Published) bool {
	if p.Seq == 0 || p.Seq > a.seq {
		return false
	}
	if p.Seq <= a.done || !slices.ContainsFunc(a.news, func(w *watch) bool { return w.filter.Matches(p.Event) }) {
		return true
	}
	_, sent := slices.BinarySearch(a.rows, p.Seq)
	return sent
}

// settle forgets what is past: every event up to seq has been handed to the
// subscription.
func (a *answered) settle(seq int64) {
	a.done = max(a.done, seq)
	past, _ := slices.BinarySearch(a.rows, a.done+1)
	if left := len(a.rows) - past; left > rowsKept {
		// Nothing has been published yet, so that any row might come.
		past += left - rowsKept
		a.done = a.rows[past] - 1
	}
	if a.done >= a.seq {
		a.news = nil
	}
	a.rows = append([]int64(nil), a.rows[past:]...)
}
