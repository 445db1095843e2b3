// Package queue decides the next step of the hunt for git data. Its inputs are held events and
// results of requests. Its output is which repository to look at and which URL to ask. It has no
// clock, no goroutine and no I/O: its user hands in the time and does the work.
//
// Repositories are searched for by identifier: many events, one search. There are
// two paths, which do not wait for each other.
//
// The main path begins a round for each repository whose time has come. It looks up
// what is missing and where it may be, and asks one URL after the other, but only
// of domains that have room. URLs of other domains it leaves to them, and the
// repository's next round comes after a backoff.
//
// Each domain has a queue of repositories that wait for it. When it may have room (a
// request ended, a window moved, a repository came), the next repository in turn gets one
// request. Nothing is polled.
//
// When an event is no longer held, its search is checked, and ends if nothing is missing.
//
// A [Throttle] decides about delays, numbers and the order, within [Clamps].
//
// Invariants:
//
//  1. With any throttle, no domain has more requests at the same time, or in any minute,
//     than the clamps allow. All domains together have no more than Clamps.All.
//  2. A round or a domain's queue asks a URL once. The paths remember that apart
//     from each other.
//  3. A repository is in at most one round, and at most once in each domain's queue.
//  4. While a domain has a queue, the main path does not ask it: nobody overtakes.
//  5. A search ends when nothing is missing, when its time is up, when the throttle
//     gives it up, or when its user forgets it.
//  6. Nobody keeps others from their turn by being slow: see Clamps.Patience.
//  7. The records of domains can outlive the process: see [Queue.Changed].
//  8. A new event makes a search fresh: its attempts count from zero, and the sooner
//     of two planned times counts.
//
// Points in time are unix milliseconds, lengths of time milliseconds.
package queue

import (
	"cmp"
	"slices"
	"strings"

	"talon/internal/heap"
	"talon/sdk/abi"
)

// Queue holds all searches and all domains. It belongs to one goroutine at a time.
type Queue struct {
	throttle Throttle
	clamps   Clamps

	repos    map[string]*repo // by identifier
	timeline heap.Heap[*repo] // those that are in no round, by when something is due
	domains  map[string]*domain
	wakes    heap.Heap[*domain] // those that are to be looked at at a time
	changed  map[string]bool    // domains of which Changed has something to say

	flights        map[Ticket]*flight
	last           Ticket
	inFlight       int
	rounds         int
	stopping       int              // requests that are to end early
	atCapacity     []*domain        // whose addresses have no room; first come, first served
	waitingForRoom []waitingForRoom // what goes on when there is room under Clamps.All; first come, first served
	checks         []*repo          // that are to be checked
	checking       int              // that are being checked

	todo   []Work
	ended  []Ended
	paused []Paused
}

// New returns an empty queue.
func New(t Throttle, c Clamps) *Queue {
	c.PerMinute = min(c.PerMinute, abi.MaxAges)
	return &Queue{
		throttle: t, clamps: c,
		timeline: heap.New(func(a, b *repo) bool { return a.due() < b.due() }, func(r *repo, place int) { r.index = place }),
		wakes:    heap.New(func(a, b *domain) bool { return a.wake < b.wake }, func(d *domain, place int) { d.heapIndex = place }),
		repos:    make(map[string]*repo), domains: make(map[string]*domain), flights: make(map[Ticket]*flight), changed: make(map[string]bool),
	}
}

// Ticket identifies a piece of work.
type Ticket uint64

// WorkKind is a kind of work.
type WorkKind uint8

const (
	Look  WorkKind = iota // find out what is missing and where it may be; answered by Looked
	Fetch                 // ask a URL; answered by Done
	Check                 // find out whether anything is missing still; answered by Looked, without URLs
	Stop                  // end a Fetch that takes long, for others wait; Done answers the Fetch
)

// Work is something to do now.
type Work struct {
	Kind   WorkKind
	Ticket Ticket // of Stop: that of the Fetch
	Key    string // the identifier
	URL    URL    // of Fetch
}

// URL is a URL that may have missing objects.
type URL struct {
	Text   string
	Domain string // the host's name, with the port if it is another; the throttle knows it by that
}

// Event is a held event that waits for git data.
type Event struct {
	Key    string // the identifier of its repository
	Name   string // the address of its repository, for the throttle
	Origin uint32 // as in package abi
	Kind   uint32
	Since  int64 // unix milliseconds: it has waited since then; 0: since now
}

// Outcome is the outcome of a search.
type Outcome uint8

const (
	Complete  Outcome = iota // nothing is missing
	Expired                  // its time was up
	GivenUp                  // the throttle ended it
	Forgotten                // nobody wants it any more
)

// Ends is the number of ends.
const Ends = int(Forgotten) + 1

func (e Outcome) String() string {
	return [Ends]string{"complete", "expired", "given-up", "forgotten"}[e]
}

// Ended is a search that has ended.
type Ended struct {
	Key      string
	Outcome  Outcome
	Attempts uint32
	Since    int64
}

// repo is a search.
type repo struct {
	key, name string
	since     int64
	expires   int64
	next      int64 // when the next round is to begin
	attempts  uint32
	missing   uint32
	refused   []Refused // at the latest look
	round     *round    // nil between rounds
	fresh     bool      // an event came during the round: next holds, without backoff
	newEvents int       // events that made it fresh
	waits     []*waiting
	flying    int
	gone      bool
	check     check
	recheck   bool    // an event left during the Check
	how       Outcome // of the search, if the Check finds that nothing is missing
	index     int     // in the timeline
	last      Last
}

// check is how a Check of a repository stands.
type check uint8

const (
	noCheck  check = iota
	checkDue       // it is among the checks
	checkUnderWay
)

func (r *repo) due() int64 { return min(r.next, r.expires) }

// Last is the latest request of a search or to a domain.
type Last struct {
	At      int64
	URL     string
	Outcome uint32
	Reason  string
}

// Add begins the search for an event's git data, or renews the search. It reports false
// if there are too many searches.
func (q *Queue) Add(now int64, e Event) bool {
	r := q.repos[e.Key]
	if r == nil && len(q.repos) >= q.clamps.Repositories {
		return false
	}
	subject := abi.Subject{Kind: abi.SubjectRepository, Name: e.Name}
	request := abi.DelayRequest{Now: now, Subject: subject, Origin: e.Origin, EventKind: e.Kind}
	if r != nil {
		request.Planned = r.next
	}
	a := q.throttle.Delay(&request)
	since := now
	if e.Since > 0 {
		since = min(e.Since, now)
	}
	next := max(now, since+min(max(a.Delay, 0), q.clamps.MaxDelay))
	expiry := q.clamps.Expiry
	if a.Expiry > 0 {
		expiry = min(a.Expiry, q.clamps.MaxExpiry)
	}
	q.plan(since, e, next, since+expiry)
	return true
}

// FetchNow begins a round of a search now, without asking the throttle. The domains'
// limits hold all the same.
func (q *Queue) FetchNow(now int64, key, name string) bool {
	if q.repos[key] == nil && len(q.repos) >= q.clamps.Repositories {
		return false
	}
	q.plan(now, Event{Key: key, Name: name}, now, now+q.clamps.Expiry)
	return true
}

func (q *Queue) plan(since int64, e Event, next, expires int64) {
	r := q.repos[e.Key]
	if r == nil {
		r = &repo{key: e.Key, name: e.Name, since: since, next: next, expires: expires}
		q.repos[e.Key] = r
		q.timeline.Push(r)
		return
	}
	r.attempts = 0
	r.newEvents++
	r.expires = max(r.expires, expires)
	for _, w := range r.waits {
		w.urls, w.tried = append(w.urls, w.tried...), nil
	}
	switch {
	case r.round == nil:
		r.next = min(r.next, next)
		q.timeline.Fix(r.index)
	case r.fresh:
		r.next = min(r.next, next)
	default:
		r.next, r.fresh = next, true
	}
}

// Released removes an event that waits no more: it was released, or it has gone. The source of
// its data does not matter. The queue checks the search, and ends it if nothing is missing. The
// end is then how: Complete or Forgotten. If some events were released and others have gone, it
// is Complete.
func (q *Queue) Released(key string, how Outcome) {
	r := q.repos[key]
	if r == nil {
		return
	}
	switch r.check {
	case noCheck:
		r.check, r.how = checkDue, how
		q.checks = append(q.checks, r)
	case checkDue:
		r.how = min(r.how, how)
	case checkUnderWay:
		r.recheck, r.how = true, min(r.how, how)
	}
}

// checked answers a Check.
func (q *Queue) checked(f *flight, p Plan) {
	q.checking--
	r := f.repo
	if r.gone {
		return
	}
	r.check = noCheck
	if f.missing(p.Missing) == 0 {
		q.finish(r, r.how)
		return
	}
	r.missing = uint32(max(p.Missing, 1))
	if r.recheck {
		r.recheck, r.check = false, checkDue
		q.checks = append(q.checks, r)
	}
}

func (q *Queue) finish(r *repo, how Outcome) {
	q.ended = append(q.ended, Ended{r.key, how, r.attempts, r.since})
	delete(q.repos, r.key)
	r.gone = true
	if r.round == nil {
		q.timeline.Remove(r.index)
	} else {
		r.round = nil
		q.rounds--
	}
	for _, w := range r.waits {
		w.dequeue()
	}
	r.waits = nil
}

// Ended returns the searches that have ended since the last call.
func (q *Queue) Ended() []Ended {
	list := q.ended
	q.ended = nil
	return list
}

// Paused is a round that left something missing.
type Paused struct {
	Key      string
	Attempts uint32
	Missing  int
	Next     int64
}

// Paused returns the rounds that have ended since the last call with objects still
// missing.
func (q *Queue) Paused() []Paused {
	list := q.paused
	q.paused = nil
	return list
}

// Work returns the work that is due now. Call it after every other input, and at the time that
// Due returns.
func (q *Queue) Work(now int64) []Work {
	for q.timeline.Len() > 0 {
		r := q.timeline.Top()
		if r.due() > now {
			break
		}
		if r.expires <= now {
			q.finish(r, Expired)
			continue
		}
		if q.rounds >= q.clamps.Rounds {
			break
		}
		q.timeline.Pop()
		q.rounds++
		r.round, r.fresh = new(round), false
		q.last++
		q.flights[q.last] = &flight{repo: r, round: r.round, newEvents: r.newEvents}
		q.todo = append(q.todo, Work{Kind: Look, Ticket: q.last, Key: r.key})
	}
	for len(q.checks) > 0 && q.checking < q.clamps.Rounds {
		r := q.checks[0]
		q.checks = slices.Delete(q.checks, 0, 1)
		if r.gone {
			continue
		}
		r.check = checkUnderWay
		q.checking++
		q.last++
		q.flights[q.last] = &flight{repo: r, newEvents: r.newEvents}
		q.todo = append(q.todo, Work{Kind: Check, Ticket: q.last, Key: r.key})
	}
	for q.wakes.Len() > 0 && q.wakes.Top().wake <= now {
		d := q.wakes.Pop()
		d.closed = false
		q.serve(now, d)
	}
	q.stopLong(now)
	list := q.todo
	q.todo = nil
	return list
}

// stopLong ends requests that take longer than the clamps' patience, as many as others
// wait for their place: else a few servers that send slowly would end the hunt for
// everybody.
func (q *Queue) stopLong(now int64) {
	for q.stopping < len(q.waitingForRoom) {
		t, f := q.longest()
		if f == nil || f.start+q.clamps.Patience > now {
			return
		}
		f.stopping = true
		q.stopping++
		q.todo = append(q.todo, Work{Kind: Stop, Ticket: t, Key: f.repo.key, URL: URL{f.url, f.domain.name}})
	}
}

// longest returns the request that began first, but for those that are being stopped.
func (q *Queue) longest() (t Ticket, longest *flight) {
	for ticket, f := range q.flights {
		if f.domain != nil && !f.stopping && (longest == nil || f.start < longest.start || f.start == longest.start && ticket < t) {
			t, longest = ticket, f
		}
	}
	return t, longest
}

// Due returns when there may be work, and false if there is none until the next input.
func (q *Queue) Due() (at int64, ok bool) {
	if q.timeline.Len() > 0 {
		r := q.timeline.Top()
		if at, ok = r.due(), true; q.rounds >= q.clamps.Rounds && r.expires > at {
			ok = false // the end of a round comes first
		}
	}
	if q.wakes.Len() > 0 && (!ok || q.wakes.Top().wake < at) {
		at, ok = q.wakes.Top().wake, true
	}
	if q.stopping < len(q.waitingForRoom) {
		if _, f := q.longest(); f != nil && (!ok || f.start+q.clamps.Patience < at) {
			at, ok = f.start+q.clamps.Patience, true
		}
	}
	return at, ok
}

// flight is work that is under way.
type flight struct {
	repo      *repo
	round     *round   // of the main path, else nil; of a Check: nil
	waiting   *waiting // of a domain's queue, else nil
	domain    *domain  // of a Fetch
	url       string
	start     int64
	newEvents int // of the repository, when it began

	stopping bool
}

// missing returns what is missing by an answer. An event that came after the question
// may not be in it: that nothing is missing does not hold for this one.
func (f *flight) missing(missing int) uint32 {
	if missing <= 0 && f.repo.newEvents != f.newEvents {
		return 1
	}
	return uint32(max(missing, 0))
}

// waitingForRoom is a repository or a domain that waits for room under Clamps.All.
type waitingForRoom struct {
	repo   *repo
	domain *domain
}

// useRoom serves those that have waited longest for room under Clamps.All.
func (q *Queue) useRoom(now int64) {
	for len(q.waitingForRoom) > 0 && q.inFlight < q.clamps.All {
		next := q.waitingForRoom[0]
		q.waitingForRoom = slices.Delete(q.waitingForRoom, 0, 1)
		if next.domain != nil {
			next.domain.waitingForRoom = false
			q.serve(now, next.domain)
		} else if next.repo.round != nil {
			q.step(now, next.repo)
		}
	}
}

// Repository is the status of a search.
type Repository struct {
	Key      string
	Name     string
	Since    int64
	Expires  int64
	Next     int64 // the next round; 0 during one
	Attempts uint32
	Missing  uint32   // objects, at the latest look
	Asking   []string // URLs that are being asked
	Waiting  []string // domains that it waits for
	Refused  []Refused
	Last     Last
}

// Domain is the status of a domain.
type Domain struct {
	Name         string
	InFlight     int
	Waiting      int // repositories
	Requests     uint64
	LastMinute   int // requests
	Failures     uint32
	FailingSince int64
	NotBefore    int64
	Health       uint32
	Reason       string
	Last         Last
}

// Len returns the number of searches.
func (q *Queue) Len() int { return len(q.repos) }

// InFlight returns the number of requests.
func (q *Queue) InFlight() int { return q.inFlight }

// Repository returns the status of the search for an identifier.
func (q *Queue) Repository(key string) (Repository, bool) {
	r := q.repos[key]
	if r == nil {
		return Repository{}, false
	}
	s := r.status()
	if r.flying > 0 {
		s.Asking = q.asking(r)
	}
	return s, true
}

// Repositories returns the status of up to most searches, those that are due first.
func (q *Queue) Repositories(limit int) []Repository {
	list := make([]Repository, 0, len(q.repos))
	for _, r := range q.repos {
		list = append(list, r.status())
	}
	slices.SortFunc(list, func(a, b Repository) int {
		return cmp.Or(cmp.Compare(a.Next, b.Next), strings.Compare(a.Key, b.Key))
	})
	list = list[:min(len(list), limit)]
	for i := range list {
		if r := q.repos[list[i].Key]; r.flying > 0 {
			list[i].Asking = q.asking(r)
		}
	}
	return list
}

func (r *repo) status() Repository {
	s := Repository{
		Key: r.key, Name: r.name, Since: r.since, Expires: r.expires, Next: r.next, Attempts: r.attempts, Missing: r.missing, Refused: r.refused, Last: r.last,
	}
	if r.round != nil {
		s.Next = 0
	}
	for _, w := range r.waits {
		if len(w.urls) > 0 {
			s.Waiting = append(s.Waiting, w.domain.name)
		}
	}
	return s
}

func (q *Queue) asking(r *repo) (urls []string) {
	for _, f := range q.flights {
		if f.repo == r && f.domain != nil {
			urls = append(urls, f.url)
		}
	}
	slices.Sort(urls)
	return urls
}

// Domains returns the status of up to most domains, the busiest first.
func (q *Queue) Domains(now int64, limit int) []Domain {
	list := make([]Domain, 0, len(q.domains))
	for _, d := range q.domains {
		s := Domain{
			Name: d.name, InFlight: d.inFlight, Waiting: len(d.queue), Requests: d.requests, Failures: d.Failures,
			FailingSince: d.FailingSince, NotBefore: d.NotBefore, Health: d.Health, Reason: d.Reason, Last: d.last,
		}
		for _, start := range d.Starts {
			if start > now-minute {
				s.LastMinute++
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Domain) int {
		return cmp.Or(-cmp.Compare(a.InFlight+a.Waiting, b.InFlight+b.Waiting), -cmp.Compare(a.Last.At, b.Last.At), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), limit)]
}
