package queue

import (
	"cmp"
	"slices"

	"talon/sdk/abi"
)

// Record is what is known of a domain and outlives the process.
type Record struct {
	Starts       []int64 `json:"starts"` // the latest ones, the newest last
	Failures     uint32  `json:"failures,omitempty"`
	FailingSince int64   `json:"failing_since,omitempty"`
	LastSuccess  int64   `json:"last_success,omitempty"`
	NotBefore    int64   `json:"not_before,omitempty"`
	Asked        int64   `json:"asked,omitempty"` // until then it rests because it asked for that
	Health       uint32  `json:"health,omitempty"`
	Reason       string  `json:"reason,omitempty"`
}

// news is when something became known last.
func (r *Record) news() int64 {
	at := max(r.FailingSince, r.LastSuccess)
	if n := len(r.Starts); n > 0 {
		at = max(at, r.Starts[n-1])
	}
	return at
}

// memory is how long a domain is remembered of which there is no news.
const memory = 7 * 24 * hour

// HasChanged reports whether Changed would return something.
func (q *Queue) HasChanged() bool { return len(q.changed) > 0 }

// Changed returns what has become known of domains since it was asked last, by their
// names: nil of one that was forgotten. A start is in it before its Fetch is returned
// by Work.
func (q *Queue) Changed() map[string]*Record {
	list := make(map[string]*Record, len(q.changed))
	for name := range q.changed {
		list[name] = nil
		if d := q.domains[name]; d != nil {
			d.kept = true
			list[name] = &Record{
				Starts: slices.Clone(d.starts), Failures: d.failures, FailingSince: d.failingSince, LastSuccess: d.lastSuccess,
				NotBefore: d.notBefore, Asked: d.asked, Health: d.health, Reason: d.reason,
			}
		}
	}
	clear(q.changed)
	return list
}

// NotKept says that a change could not be kept: Changed returns it again. One that
// was forgotten stays behind, for Remember to refuse it.
func (q *Queue) NotKept(name string) {
	if q.domains[name] != nil {
		q.changed[name] = true
	}
}

// Remember tells an empty queue what was known before, the latest news first. It
// returns the names of what is not to be kept any longer.
func (q *Queue) Remember(now int64, known map[string]*Record) (old []string) {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(-cmp.Compare(known[a].news(), known[b].news()), cmp.Compare(a, b))
	})
	for i, name := range names {
		r := known[name]
		if len(q.domains) >= q.clamps.Domains || r.news() < now-memory {
			return names[i:]
		}
		d := q.domain(now, name)
		d.kept = true
		d.failures, d.failingSince, d.lastSuccess = r.Failures, min(r.FailingSince, now), min(r.LastSuccess, now)
		// The clock may have been set back since: nobody waits for its old time.
		d.notBefore, d.asked = min(r.NotBefore, now+q.clamps.MostRest), min(r.Asked, now+q.clamps.MostRest)
		d.starts = slices.Clone(r.Starts[max(len(r.Starts)-abi.MaxAges, 0):])
		for i := range d.starts {
			d.starts[i] = min(d.starts[i], now)
		}
		slices.Sort(d.starts)
		if d.reason = r.Reason; r.Health <= abi.HealthBarred {
			d.health = r.Health
		}
	}
	return nil
}
