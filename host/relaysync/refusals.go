package relaysync

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"talon/host/relaysync/known"
)

// refusals keeps across restarts what was refused, so that a comparison by a wide filter does
// not bring it again. What it loses is fetched and refused once more.
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
