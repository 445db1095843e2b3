package queue

import (
	"slices"

	"talon/sdk/abi"
)

// domain is a server, by its name.
type domain struct {
	Record
	name     string
	inFlight int
	requests uint64
	last     Last

	queue          []*waiting // who waits and is not being served, who was served longest ago first
	closed         bool       // no room: until wake, or until a request ends
	wake           int64      // when to look again
	heapIndex      int        // in wakes; -1 if it is not there
	waitingForRoom bool       // it is among the stalled
	atCapacity     bool       // it is among the crowded
	kept           bool       // there is a record of it
}

// domain returns the record of a domain, nil if there are too many that are busy.
func (q *Queue) domain(now int64, name string) *domain {
	if d := q.domains[name]; d != nil {
		return d
	}
	if len(q.domains) >= q.clamps.Domains && !q.forgetDomains(now) {
		return nil
	}
	d := &domain{name: name, heapIndex: -1}
	q.domains[name] = d
	return d
}

// forgetDomains makes room for others: those that failed are remembered longer, and
// those that rest longest.
func (q *Queue) forgetDomains(now int64) bool {
	for rank := range 3 {
		for name, d := range q.domains {
			if d.inFlight == 0 && len(d.queue) == 0 && d.heapIndex < 0 && !d.waitingForRoom && d.evictionRank(now) <= rank &&
				(len(d.Starts) == 0 || d.Starts[len(d.Starts)-1] <= now-minute) {
				delete(q.domains, name)
				if delete(q.changed, name); d.kept {
					q.changed[name] = true
				}
			}
		}
		if len(q.domains) < q.clamps.Domains {
			return true
		}
	}
	return false
}

// evictionRank is how much is lost with what is known of the domain.
func (d *domain) evictionRank(now int64) int {
	switch {
	case d.NotBefore > now:
		return 2
	case d.Failures > 0:
		return 1
	}
	return 0
}

// waiting is a repository in the queue of a domain, or being served from there.
type waiting struct {
	repo      *repo
	domain    *domain
	urls      []string // not asked yet
	tried     []string
	flying    bool
	since     int64
	lastTried int64
}

func (r *repo) waitsFor(d *domain) *waiting {
	for _, w := range r.waits {
		if w.domain == d {
			return w
		}
	}
	return nil
}

// enqueue has a repository wait for the domain, for one URL more.
func (d *domain) enqueue(now int64, r *repo, url string) {
	w := r.waitsFor(d)
	if w == nil {
		w = &waiting{repo: r, domain: d, since: now}
		r.waits = append(r.waits, w)
		d.queue = append(d.queue, w)
	}
	if !slices.Contains(w.urls, url) && !slices.Contains(w.tried, url) {
		w.urls = append(w.urls, url)
	}
}

// requeue brings a repository that was served to the end of the queue, unless it has
// no more URLs there.
func (w *waiting) requeue(url string) {
	w.flying = false
	w.tried = append(w.tried, url)
	if len(w.urls) > 0 {
		w.domain.queue = append(w.domain.queue, w)
		return
	}
	w.repo.waits = slices.DeleteFunc(w.repo.waits, func(o *waiting) bool { return o == w })
}

// back puts a repository that got no request at the front of the queue again.
func (w *waiting) back(url string) {
	w.flying = false
	w.urls = slices.Insert(w.urls, 0, url)
	w.domain.queue = slices.Insert(w.domain.queue, 0, w)
}

// capacityRest is how long a domain whose address has no room waits at most. A request
// that ends may have made room before.
const capacityRest = 30 * second

// awaitAnyRequest has a domain wait until a request ends, to whichever domain: the queue knows
// names, not addresses.
func (q *Queue) awaitAnyRequest(now int64, d *domain) {
	d.closed = true
	d.wake = now + capacityRest
	q.wakes.Push(d)
	if !d.atCapacity {
		d.atCapacity = true
		q.atCapacity = append(q.atCapacity, d)
	}
}

// useAddress serves the domain that has waited longest for room at its address.
func (q *Queue) useAddress(now int64) {
	if len(q.atCapacity) == 0 {
		return
	}
	d := q.atCapacity[0]
	q.atCapacity = slices.Delete(q.atCapacity, 0, 1)
	d.atCapacity = false
	if d.closed && d.heapIndex >= 0 {
		d.closed = false
		q.unwake(d)
		q.serve(now, d)
	}
}

// dequeue takes a repository out of the queue.
func (w *waiting) dequeue() {
	d := w.domain
	if i := slices.Index(d.queue, w); i >= 0 {
		d.queue = slices.Delete(d.queue, i, i+1)
	}
}

// serve gives requests to repositories that wait, as long as there is room.
func (q *Queue) serve(now int64, d *domain) {
	for len(d.queue) > 0 {
		if q.inFlight >= q.clamps.All {
			if !d.waitingForRoom {
				d.waitingForRoom = true
				q.waitingForRoom = append(q.waitingForRoom, waitingForRoom{domain: d})
			}
			return
		}
		if !q.open(now, d, d.queue[0].repo) {
			return
		}
		n := min(len(d.queue), abi.MaxWaiting)
		request := abi.PickRequest{Now: now, Subject: d.subject(now), Waiting: make([]abi.Waiting, n)}
		for i, w := range d.queue[:n] {
			request.Waiting[i] = abi.Waiting{
				Repository: w.repo.name, Since: w.since, LastTried: w.lastTried, Attempts: w.repo.attempts,
				Missing: w.repo.missing, URLs: uint32(len(w.urls)),
			}
		}
		a := q.throttle.Pick(&request)
		if a.None || int(a.Index) >= n {
			q.close(now, d, 0)
			return
		}
		w := d.queue[a.Index]
		d.queue = slices.Delete(d.queue, int(a.Index), int(a.Index)+1)
		url := w.urls[0]
		w.urls, w.lastTried, w.flying = w.urls[1:], now, true
		q.start(now, &flight{repo: w.repo, waiting: w, domain: d, url: url})
	}
}

// open reports whether a request to the domain may start now. If not, it sees to it
// that the domain is looked at again when that may have changed.
func (q *Queue) open(now int64, d *domain, r *repo) bool {
	if d.closed {
		return false
	}
	if d.inFlight >= q.clamps.AtOnce {
		q.close(now, d, 0)
		return false
	}
	if n := len(d.Starts) - q.clamps.PerMinute; n >= 0 {
		if left := d.Starts[n] + minute + second - now; left > 0 {
			q.close(now, d, left)
			return false
		}
	}
	if left := d.NotBefore - now; left > 0 {
		q.close(now, d, left)
		return false
	}
	a := q.throttle.Admit(&abi.ThrottleAdmitRequest{
		Now: now, Subject: d.subject(now), Repository: r.name, AllInFlight: uint32(q.inFlight),
	})
	if !a.Start {
		q.close(now, d, min(a.Wait, q.clamps.MaxRest))
	}
	return a.Start
}

// close leaves the domain alone for so long, or, for 0, until a request ends.
func (q *Queue) close(now int64, d *domain, wait int64) {
	d.closed = true
	if wait <= 0 {
		if d.inFlight > 0 {
			return
		}
		wait = idle
	}
	q.unwake(d)
	d.wake = now + wait
	q.wakes.Push(d)
}

func (q *Queue) unwake(d *domain) {
	if d.heapIndex >= 0 {
		q.wakes.Remove(d.heapIndex)
	}
}

func (d *domain) started(now int64) {
	d.inFlight++
	d.requests++
	if len(d.Starts) == abi.MaxAges {
		d.Starts = slices.Delete(d.Starts, 0, 1)
	}
	d.Starts = append(d.Starts, now)
}

// cancelled takes a start back: there was no request.
func (d *domain) cancelled(start int64) {
	d.inFlight--
	d.requests--
	for i := len(d.Starts) - 1; i >= 0; i-- {
		if d.Starts[i] == start {
			d.Starts = slices.Delete(d.Starts, i, i+1)
			return
		}
	}
}

// recordResult keeps how a request to the domain ended, and asks the throttle when to go on.
func (q *Queue) recordResult(now int64, f *flight, result Result, last Last) {
	d := f.domain
	d.inFlight--
	d.last = last
	if result.Outcome == abi.OutcomeUnspecified {
		return
	}
	if answered(result.Outcome) {
		d.Failures, d.FailingSince, d.LastSuccess = 0, 0, now
	} else {
		if d.Failures == 0 {
			d.FailingSince = now
		}
		if d.Failures < 1<<32-1 {
			d.Failures++
		}
	}
	a := q.throttle.After(&abi.AfterRequest{
		Now: now, Subject: d.subject(now), Outcome: result.Outcome, Repository: f.repo.name, Status: uint32(max(result.Status, 0)),
		RetryAfter: result.RetryAfter, Took: now - f.start, Bytes: result.Bytes, Found: uint32(max(result.Found, 0)),
		Missing: uint32(max(result.Missing, 0)), Reason: result.Reason,
	})
	d.NotBefore = 0
	if a.Delay > 0 {
		d.NotBefore = now + min(a.Delay, q.clamps.MaxRest)
	}
	// A request that was under way when the domain asked for rest ends after that, and shortens
	// no part of the rest.
	if d.Asked > now {
		d.NotBefore = max(d.NotBefore, d.Asked)
	}
	if result.Outcome == abi.OutcomeRateLimited || result.RetryAfter > 0 {
		d.Asked = d.NotBefore
	}
	if a.Health != abi.HealthUnspecified {
		d.Health = a.Health
	}
	d.Reason = a.Reason
}

func (d *domain) subject(now int64) abi.Subject {
	s := abi.Subject{
		Kind: abi.SubjectDomain, Name: d.name, InFlight: uint32(d.inFlight), Failures: d.Failures, FailingSince: d.FailingSince,
		LastSuccess: d.LastSuccess, NotBefore: d.NotBefore, Health: d.Health,
	}
	s.Ages = make([]uint32, len(d.Starts))
	for i, start := range d.Starts {
		s.Ages[len(d.Starts)-1-i] = uint32(min(max(now-start, 0), 1<<32-1))
	}
	return s
}

// Throttle decides when and how much to ask. It always answers: its maker chooses what to
// do without a module, such as [DefaultBackoff].
type Throttle interface {
	Delay(*abi.DelayRequest) abi.DelayAnswer
	Admit(*abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer
	After(*abi.AfterRequest) abi.AfterAnswer
	Pick(*abi.PickRequest) abi.PickAnswer
}

// Lengths of time.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
)

// Clamps are the operator's limits: they hold whatever a throttle says.
type Clamps struct {
	All       int // concurrent requests, to everybody
	AtOnce    int // to one domain
	PerMinute int // to one domain, in any minute; at most 256

	Rounds       int // concurrent rounds
	URLs         int // of one round
	Repositories int
	Domains      int // that are remembered

	Patience   int64 // a request that takes longer makes way for others that wait for a place
	MinBackoff int64 // between two rounds
	MaxBackoff int64
	MaxDelay   int64 // to the first round
	MaxRest    int64 // of a domain
	Expiry     int64 // of a search, where the throttle names none
	MaxExpiry  int64
}

// DefaultClamps are the default clamps.
var DefaultClamps = Clamps{
	All: 32, AtOnce: 16, PerMinute: 120,
	Rounds: 256, URLs: 64, Repositories: 50_000, Domains: 5_000,
	Patience: 3 * minute, MinBackoff: second, MaxBackoff: hour, MaxDelay: hour, MaxRest: 24 * hour, Expiry: 30 * minute, MaxExpiry: 24 * hour,
}

// idle is how long a domain without any request is left alone if the throttle wants
// to be asked after one has ended.
const idle = minute

// DefaultBackoff is the throttle where no module answers: it is as slow as the slowest of the
// bundled ones.
type DefaultBackoff struct{}

func (DefaultBackoff) Delay(q *abi.DelayRequest) abi.DelayAnswer {
	if q.Origin == abi.OriginClient {
		return abi.DelayAnswer{Delay: 3 * minute}
	}
	return abi.DelayAnswer{Delay: 5 * second}
}

func (DefaultBackoff) Admit(q *abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	const perMinute = 10
	if q.Subject.InFlight > 0 {
		return abi.ThrottleAdmitAnswer{}
	}
	if ages := q.Subject.Ages; len(ages) >= perMinute && int64(ages[perMinute-1]) < minute+second {
		return abi.ThrottleAdmitAnswer{Wait: minute + second - int64(ages[perMinute-1])}
	}
	return abi.ThrottleAdmitAnswer{Start: true}
}

func (DefaultBackoff) After(q *abi.AfterRequest) abi.AfterAnswer {
	switch {
	case q.Subject.Kind == abi.SubjectRepository:
		return abi.AfterAnswer{Delay: 2 * minute}
	case answered(q.Outcome):
		return abi.AfterAnswer{Health: abi.HealthHealthy}
	}
	return abi.AfterAnswer{Delay: max(min(q.RetryAfter, hour), 2*minute), Health: abi.HealthDegraded}
}

func (DefaultBackoff) Pick(*abi.PickRequest) abi.PickAnswer { return abi.PickAnswer{} }

// answered reports whether a server did its part, though it may not have had what
// was asked for.
func answered(outcome uint32) bool {
	return outcome == abi.OutcomeOK || outcome == abi.OutcomePartial || outcome == abi.OutcomeNotFound
}
