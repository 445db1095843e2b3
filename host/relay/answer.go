package relay

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/bits"
	"slices"
	"time"

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
	return ask
}

func (c *conn) now() int64 { return c.relay.cfg.Now().Unix() }

func (c *conn) selectRows(ctx context.Context, filters []host.Filter) (host.Selection, error) {
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	return c.relay.deps.Store.Select(ctx, filters, c.now())
}

// How much of a stored answer is read in one step, and how much of it may lie in the
// queue before the next part is read.
const (
	fetchRows  = 128
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

	// unpublished are the filters with limit 0, if there are others beside them. rows are
	// those of the stored answer that may yet be published, ascending; without news
	// they do not matter.
	unpublished []*watch
	rows        []int64
}

// rowsKept is how many rows of its answer a subscription remembers at most when it
// has become live: about as many as are committed and not published.
const rowsKept = 1024

// by notes the answer to the query. Before that, nothing has been answered.
func (a *answered) by(sel *host.Selection, watches []watch) {
	a.seq = sel.Seq
	for i := range watches {
		if watches[i].filter.Limit == 0 {
			a.unpublished = append(a.unpublished, &watches[i])
		}
	}
	if a.unpublished == nil {
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
	if p.Seq <= a.done || !slices.ContainsFunc(a.unpublished, func(w *watch) bool { return w.filter.Matches(p.Event) }) {
		return true
	}
	_, sent := slices.BinarySearch(a.rows, p.Seq)
	return sent
}

// forget forgets what is past: every event up to seq has been handed to the
// subscription.
func (a *answered) forget(seq int64) {
	a.done = max(a.done, seq)
	past, _ := slices.BinarySearch(a.rows, a.done+1)
	if left := len(a.rows) - past; left > rowsKept {
		// Nothing has been published yet, so that any row might come.
		past += left - rowsKept
		a.done = a.rows[past] - 1
	}
	if a.done >= a.seq {
		a.unpublished = nil
	}
	a.rows = append([]int64(nil), a.rows[past:]...)
}

// count answers a COUNT (NIP-45): the exact number, and a HyperLogLog where the
// filter defines one.
func (c *conn) count(ctx context.Context, id string, filters []host.Filter) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.relay.cfg.Limits.QueryTime)
	defer cancel()
	ask := make([]host.Filter, 0, len(filters))
	for _, f := range filters {
		if !f.Empty() {
			f.Limit = -1 // counting has no page
			ask = append(ask, f)
		}
	}
	var n int64
	var err error
	if len(ask) > 0 {
		n, err = c.relay.deps.Store.Count(ctx, ask, c.now())
	}
	var registers []byte
	if offset, ok := hllOffset(filters); ok && err == nil {
		var h hyperLogLog
		if len(ask) > 0 {
			err = c.relay.deps.Store.Authors(ctx, ask, c.now(), func(author host.PubKey) { h.add(offset, &author) })
		}
		registers = h[:]
	}
	if err != nil {
		c.refuse(id, c.storeFailed(ctx, "count events", err))
		return
	}
	c.spent.charge(n)
	c.send(outCount, wire.AppendCount(nil, id, n, registers))
	c.relay.metrics.countTime.Observe(time.Since(began).Seconds())
}

// hyperLogLog estimates how many authors there are; those of several relays are
// merged by the maximum of each register (NIP-45).
type hyperLogLog [256]byte

// add counts an author. The byte at offset chooses the register, which keeps the
// largest number of leading zeros among the 56 bits after it, plus one.
func (h *hyperLogLog) add(offset int, author *host.PubKey) {
	var tail uint64
	for _, b := range author[offset+1 : offset+8] {
		tail = tail<<8 | uint64(b)
	}
	zeros := bits.LeadingZeros64(tail) - 8
	r := &h[author[offset]]
	*r = max(*r, byte(zeros+1))
}

// hllOffset returns the place in public keys at which a HyperLogLog for this
// question reads, 8 to 23, and false if NIP-45 defines none: it takes one filter
// with a tag. The place follows from the first value of the first tag, so that
// all relays choose the same, and nobody can mine keys for all questions together.
func hllOffset(filters []host.Filter) (int, bool) {
	if len(filters) != 1 || len(filters[0].Tags) == 0 || len(filters[0].Tags[0].Values) == 0 {
		return 0, false
	}
	value := filters[0].Tags[0].Values[0]
	var key [32]byte
	if !host.ParseHex(key[:], value) {
		if a, ok := host.ParseAddress(value); ok {
			key = a.PubKey
		} else {
			key = sha256.Sum256([]byte(value))
		}
	}
	return int(key[16]>>4) + 8, true // character 32 of the hex
}
