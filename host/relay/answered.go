package relay

import (
	"slices"

	"talon/host"
)

// answered tells which events that are published the stored answer has dealt with.
//
// The answer has the events of the filters that ask for stored ones. An event that the query saw
// and that only a filter with limit 0 wants is not in it. It is still to come, unless it is among
// the rows. A row is a Seq.
type answered struct {
	done int64 // what was published with a Seq up to this is past
	seq  int64 // the query saw what has a Seq up to this

	// unpublished are the filters with limit 0, if there are other filters. rows are those rows of
	// the stored answer that may still be published, ascending. They do not matter if unpublished
	// is empty.
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
