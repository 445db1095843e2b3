package queue

import (
	"cmp"
	"slices"

	"talon/sdk/abi"
)

// round is one pass of the main path over the URLs of a repository.
type round struct {
	urls   []URL
	state  []urlState
	result uint32 // the best outcome
}

type urlState uint8

const (
	untried urlState = iota
	tried
	deferred // its domain has no room
)

// Plan is the result of a look.
type Plan struct {
	URLs    []URL     // in the order in which they are to be asked
	Refused []Refused // some of those that are not to be asked
	Missing int       // objects; 0 ends the search, unless an event came since the look began
}

// Refused is a URL that is not asked, and why.
type Refused struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// Looked answers a Look, or a Check.
func (q *Queue) Looked(now int64, t Ticket, p Plan) {
	f := q.flights[t]
	if f == nil || f.domain != nil {
		return
	}
	delete(q.flights, t)
	if f.round == nil {
		q.checked(f, p)
		return
	}
	if f.repo.gone || f.repo.round != f.round {
		return
	}
	r := f.repo
	if r.missing = f.missing(p.Missing); r.missing == 0 {
		q.finish(r, Complete)
		return
	}
	r.refused = p.Refused
	for _, u := range p.URLs {
		r.round.add(u, q.clamps.URLs)
	}
	q.step(now, r)
}

func (rd *round) add(u URL, limit int) {
	if len(rd.urls) < limit && !slices.ContainsFunc(rd.urls, func(o URL) bool { return o.Text == u.Text }) {
		rd.urls, rd.state = append(rd.urls, u), append(rd.state, untried)
	}
}

// step asks the next URL whose domain has room, or ends the round.
func (q *Queue) step(now int64, r *repo) {
	rd := r.round
	for i, u := range rd.urls {
		if rd.state[i] != untried {
			continue
		}
		if q.inFlight >= q.clamps.All {
			q.waitingForRoom = append(q.waitingForRoom, waitingForRoom{repo: r})
			return
		}
		d := q.domain(now, u.Domain)
		switch {
		case d == nil: // too many domains are busy
			rd.state[i] = tried
		case len(d.queue) > 0 || r.waitsFor(d) != nil || !q.open(now, d, r):
			rd.state[i] = deferred
		default:
			rd.state[i] = tried
			q.start(now, &flight{repo: r, round: rd, domain: d, url: u.Text})
			return
		}
	}
	q.endRound(now, r)
}

// endRound leaves the URLs whose domains had no room to these, and plans the next
// round.
func (q *Queue) endRound(now int64, r *repo) {
	rd := r.round
	r.round = nil
	q.rounds--
	r.attempts++
	var waits []*domain
	for i, u := range rd.urls {
		if rd.state[i] != deferred {
			continue
		}
		if d := q.domain(now, u.Domain); d != nil {
			d.enqueue(now, r, u.Text)
			waits = append(waits, d)
		}
	}
	outcome := rd.result
	if outcome == abi.OutcomeUnspecified {
		outcome = abi.OutcomeNotFound
	}
	a := q.throttle.After(&abi.AfterRequest{
		Now: now, Subject: abi.Subject{Kind: abi.SubjectRepository, Name: r.name}, Outcome: outcome,
		Missing: r.missing, Attempts: r.attempts, Since: r.since, Reason: r.last.Reason,
	})
	if r.fresh {
		r.attempts = 0
	} else {
		r.next = now + min(max(a.Delay, q.clamps.MinBackoff), q.clamps.MaxBackoff)
	}
	q.timeline.Push(r)
	if a.GiveUp && !r.fresh {
		q.finish(r, GivenUp)
		return
	}
	q.paused = append(q.paused, Paused{r.key, r.attempts, int(r.missing), r.next})
	for _, d := range waits {
		q.serve(now, d)
	}
}

// start has a URL asked. REQUIRES: open allowed it.
func (q *Queue) start(now int64, f *flight) {
	f.start, f.newEvents = now, f.repo.newEvents
	f.domain.started(now)
	q.changed[f.domain.name] = true
	f.repo.flying++
	q.inFlight++
	q.last++
	q.flights[q.last] = f
	q.todo = append(q.todo, Work{Kind: Fetch, Ticket: q.last, Key: f.repo.key, URL: URL{f.url, f.domain.name}})
}

// Result is the result of a request.
type Result struct {
	// Skipped says that there was no request, because the URL, or the missing objects, had gone
	// by then. Of the other fields only Missing counts then.
	Skipped bool

	// Crowded says that there was no request either, because as many connections as there
	// may be lead to the address of the domain, under whatever names. The URL is asked when
	// another request has ended.
	Crowded bool

	Outcome    uint32 // as in package abi; 0 is a fault of this machine, for which no domain is blamed
	Status     int    // of HTTP
	RetryAfter int64
	Bytes      int64
	Found      int
	Missing    int // objects that are missing now; 0 ends the search, unless an event came since the Fetch
	Reason     string

	// Moved is where the URL leads by a redirect, if that is another domain: it is
	// asked as any other URL.
	Moved URL
}

// Done answers a Fetch.
func (q *Queue) Done(now int64, t Ticket, result Result) {
	f := q.flights[t]
	if f == nil || f.domain == nil {
		return
	}
	delete(q.flights, t)
	r, d := f.repo, f.domain
	q.inFlight--
	r.flying--
	if f.stopping {
		q.stopping--
	}
	q.changed[d.name] = true
	switch {
	case result.Crowded:
		d.cancelled(f.start)
		result.Moved = URL{}
	case result.Skipped:
		d.cancelled(f.start)
	default:
		last := Last{now, f.url, result.Outcome, result.Reason}
		r.last = last
		q.recordResult(now, f, result, last)
	}
	d.closed = false
	q.unwake(d)
	if !r.gone {
		if r.missing = f.missing(result.Missing); r.missing == 0 {
			q.finish(r, Complete)
		}
	}
	if f.waiting != nil && !r.gone {
		if result.Moved.Text != "" {
			q.moved(now, r, result.Moved)
		}
		if result.Crowded {
			f.waiting.back(f.url)
		} else {
			f.waiting.requeue(f.url)
		}
	}
	if result.Crowded {
		q.awaitAnyRequest(now, d)
	} else {
		q.useAddress(now)
	}
	// Repositories that have waited come before the round.
	q.serve(now, d)
	q.useRoom(now)
	if f.round != nil && !r.gone && r.round == f.round {
		if result.Crowded {
			f.round.putOff(f.url)
		} else {
			f.round.best(result.Outcome)
		}
		if result.Moved.Text != "" {
			f.round.add(result.Moved, q.clamps.URLs)
		}
		q.step(now, r)
	}
}

// best keeps the outcome that says most: outcomes are in the order of how good they
// are.
func (rd *round) best(outcome uint32) {
	if outcome != abi.OutcomeUnspecified && (rd.result == abi.OutcomeUnspecified || outcome < rd.result) {
		rd.result = outcome
	}
}

// putOff leaves a URL to the queue of its domain.
func (rd *round) putOff(url string) {
	if i := slices.IndexFunc(rd.urls, func(u URL) bool { return u.Text == url }); i >= 0 {
		rd.state[i] = deferred
	}
}

// moved puts the target of a redirect into the queue of its domain.
func (q *Queue) moved(now int64, r *repo, u URL) {
	if d := q.domain(now, u.Domain); d != nil {
		d.enqueue(now, r, u.Text)
		q.serve(now, d)
	}
}

// Record is the state of a domain that survives a restart.
type Record struct {
	Starts       []int64 `json:"starts"` // the latest ones, the newest last
	Failures     uint32  `json:"failures,omitempty"`
	FailingSince int64   `json:"failing_since,omitempty"`
	LastSuccess  int64   `json:"last_success,omitempty"`
	NotBefore    int64   `json:"not_before,omitempty"`
	Asked        int64   `json:"asked,omitempty"` // until then it rests because it asked for that
	Health       uint32  `json:"health,omitempty"`
	Reason       string  `json:"reason,omitempty"` // what the throttle says of it
}

// lastChange is when something became known last.
func (r *Record) lastChange() int64 {
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

// Changed returns the records of domains that changed since the last call, by name: nil
// for one that was forgotten. A start is in it before its Fetch is returned by Work.
func (q *Queue) Changed() map[string]*Record {
	list := make(map[string]*Record, len(q.changed))
	for name := range q.changed {
		list[name] = nil
		if d := q.domains[name]; d != nil {
			d.kept = true
			record := d.Record
			record.Starts = slices.Clone(d.Starts)
			list[name] = &record
		}
	}
	clear(q.changed)
	return list
}

// NotKept reports that a change could not be saved: Changed returns it again. One that
// was forgotten stays behind, for Restore to refuse it.
func (q *Queue) NotKept(name string) {
	if q.domains[name] != nil {
		q.changed[name] = true
	}
}

// Restore restores saved records into an empty queue, the latest first. It returns the
// names of records to delete.
func (q *Queue) Restore(now int64, known map[string]*Record) (old []string) {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(-cmp.Compare(known[a].lastChange(), known[b].lastChange()), cmp.Compare(a, b))
	})
	for i, name := range names {
		r := known[name]
		if len(q.domains) >= q.clamps.Domains || r.lastChange() < now-memory {
			return names[i:]
		}
		d := q.domain(now, name)
		d.kept = true
		d.Record = *r
		// The clock may have been set back since: nobody waits for its old time.
		d.FailingSince, d.LastSuccess = min(r.FailingSince, now), min(r.LastSuccess, now)
		d.NotBefore, d.Asked = min(r.NotBefore, now+q.clamps.MaxRest), min(r.Asked, now+q.clamps.MaxRest)
		d.Starts = slices.Clone(r.Starts[max(len(r.Starts)-abi.MaxAges, 0):])
		for i := range d.Starts {
			d.Starts[i] = min(d.Starts[i], now)
		}
		slices.Sort(d.Starts)
		if r.Health > abi.HealthBarred {
			d.Health = abi.HealthUnspecified
		}
	}
	return nil
}
