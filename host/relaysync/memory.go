package relaysync

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"talon/host/relaysync/holdings"
	"talon/host/relaysync/known"
)

// Holdings stores which events relays are believed to hold, across restarts. Any
// goroutine may call it. A lost record costs bytes, never events.
type Holdings interface {
	Load(ctx context.Context, relay string) ([]byte, error)   // nil: nothing is known
	Save(ctx context.Context, relays map[string][]byte) error // those that changed; nil: forgotten
}

// beliefs holds what lines have learnt of their relays until it is written, many in one
// transaction. Only relays that are connected have a set in memory.
type beliefs struct {
	keep  Holdings // nil: nothing is kept
	limit int      // events of one relay

	mu      sync.Mutex // guards the fields below
	pending map[string][]byte
	writing map[string][]byte
}

func newBeliefs(keep Holdings, limit int) *beliefs {
	return &beliefs{keep: keep, limit: limit, pending: make(map[string][]byte)}
}

// get returns what a relay is believed to hold.
func (s *beliefs) get(ctx context.Context, relay string) (*holdings.Set, error) {
	if s.keep == nil {
		return nil, nil
	}
	s.mu.Lock()
	b, ok := s.pending[relay]
	if !ok {
		b, ok = s.writing[relay]
	}
	s.mu.Unlock()
	var err error
	if !ok {
		b, err = s.keep.Load(ctx, relay)
	}
	return holdings.Decode(b, s.limit), err
}

// put has something written; nil forgets the relay.
func (s *beliefs) put(relay string, b []byte) {
	if s.keep == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[relay] = b
}

// flush writes what was put. One goroutine calls it.
func (s *beliefs) flush(ctx context.Context) error {
	s.mu.Lock()
	list := s.pending
	s.pending, s.writing = make(map[string][]byte), list
	s.mu.Unlock()
	var err error
	if len(list) > 0 {
		err = s.keep.Save(ctx, list)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = nil
	if err != nil {
		maps.Copy(list, s.pending) // what is newer counts
		s.pending = list
	}
	return err
}

// run writes from time to time until ctx ends. The caller flushes once more after it.
func (s *beliefs) run(ctx context.Context, every time.Duration, failed func(error)) {
	if s.keep != nil {
		writeEvery(ctx, every, s.flush, failed)
	}
}

// writeEvery writes from time to time until ctx ends, and lets each write come to its end.
func writeEvery(ctx context.Context, every time.Duration, write func(context.Context) error, failed func(error)) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := write(context.WithoutCancel(ctx)); err != nil {
			failed(err)
		}
	}
}

// refusals keeps refused events across restarts, so that a comparison by a wide filter does
// not bring them again. If an entry is lost, the event is fetched and refused once more.
type refusals struct {
	keep     Memory // nil: nothing is kept
	policies func() string
	known    *known.Set
	now      func() int64 // unix seconds

	mu    sync.Mutex // guards the field below
	stamp string     // of the policies by which what is known was refused

	// One goroutine owns the fields below.
	rows    map[string]uint64 // that are written: the page of each
	written string            // the stamp
}

// stampRow is the name of the row that says by which policies the others were refused.
const stampRow = "policies"

func pageRow(page uint64) string { return fmt.Sprintf("page-%016x", page) }

// load restores what was refused, if the same policies decide as then.
func (r *refusals) load(ctx context.Context) error {
	if r.keep == nil {
		return nil
	}
	r.stamp = r.policies()
	all, err := r.keep.Load(ctx)
	if err != nil {
		return err
	}
	r.written = string(all[stampRow])
	r.rows = make(map[string]uint64)
	pages := make(map[uint64][]byte)
	for name, row := range all {
		page, err := strconv.ParseUint(name[min(len(name), len("page-")):], 16, 64)
		if err != nil || pageRow(page) != name || page > maxPage {
			continue
		}
		r.rows[name] = page
		if r.written == r.stamp {
			pages[page] = row
		}
	}
	r.known.Restore(pages, r.now())
	return nil
}

// maxPage is no number that is reached.
const maxPage = 1 << 48

// forget forgets what was refused: other policies decide.
func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.Invalidate()
	if r.keep != nil {
		r.stamp = r.policies()
	}
}

// save writes what has changed.
func (r *refusals) save(ctx context.Context) error {
	if r.keep == nil || r.rows == nil {
		return nil
	}
	r.mu.Lock()
	stamp := r.stamp
	pages, first := r.known.Pages(r.now())
	r.mu.Unlock()
	out := make(map[string][]byte)
	for page, b := range pages {
		out[pageRow(page)] = b
	}
	for name, page := range r.rows {
		if page < first {
			out[name] = nil
		}
	}
	if stamp != r.written {
		out[stampRow] = []byte(stamp)
		for name := range r.rows {
			if _, ok := out[name]; !ok {
				out[name] = nil // other policies refused what is there
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	if err := r.keep.Save(ctx, out); err != nil {
		r.known.Unwritten()
		return err
	}
	r.written = stamp
	for name := range out {
		delete(r.rows, name)
	}
	for page := range pages {
		r.rows[pageRow(page)] = page
	}
	return nil
}

// refusalsEvery is how often what was refused is written.
const refusalsEvery = 5 * time.Minute

// run writes from time to time until ctx ends.
func (r *refusals) run(ctx context.Context, failed func(error)) {
	if r.keep != nil {
		writeEvery(ctx, refusalsEvery, r.save, failed)
	}
}
