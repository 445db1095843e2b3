package queue

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"talon/sdk/abi"
)

// numbers is a throttle by the numbers of the source document, but for what a test
// changes.
type numbers struct {
	user, synced, first, most int64
	atOnce                    uint32
	perMinute                 int
	wait                      func(*abi.ThrottleAdmitRequest) (abi.ThrottleAdmitAnswer, bool)
}

func byTheBook() *numbers {
	return &numbers{user: 180_000, synced: 500, first: 20_000, most: 120_000, atOnce: 5, perMinute: 30}
}

func (n *numbers) Delay(q *abi.DelayRequest) abi.DelayAnswer {
	if q.Origin == abi.OriginClient {
		return abi.DelayAnswer{Delay: n.user}
	}
	return abi.DelayAnswer{Delay: n.synced}
}

func (n *numbers) Admit(q *abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	if n.wait != nil {
		if a, ok := n.wait(q); ok {
			return a
		}
	}
	if q.Subject.InFlight >= n.atOnce {
		return abi.ThrottleAdmitAnswer{}
	}
	if ages := q.Subject.Ages; len(ages) >= n.perMinute && ages[n.perMinute-1] < 60_000 {
		return abi.ThrottleAdmitAnswer{Wait: 60_000 - int64(ages[n.perMinute-1])}
	}
	return abi.ThrottleAdmitAnswer{Start: true}
}

func (n *numbers) After(q *abi.AfterRequest) abi.AfterAnswer {
	if q.Subject.Kind != abi.SubjectRepository {
		return abi.AfterAnswer{Delay: q.RetryAfter}
	}
	d := n.first
	for range q.Attempts - 1 {
		d = min(2*d, n.most)
	}
	return abi.AfterAnswer{Delay: d}
}

func (n *numbers) Pick(q *abi.PickRequest) abi.PickAnswer {
	best := 0
	for i, w := range q.Waiting {
		if w.LastTried < q.Waiting[best].LastTried {
			best = i
		}
	}
	return abi.PickAnswer{Index: uint32(best)}
}

// began is when a world begins.
const began int64 = 1_000_000_000_000

// world is git servers and repositories in virtual time, around a queue.
type world struct {
	q     *Queue
	now   int64
	repos map[string]*wanted
	urls  map[string]*served
	busy  []landing
	tell  func(format string, args ...any) // a line of the story
	order int

	paused   int // rounds that left something missing
	disk     map[string]*Record
	requests map[string][]span // by domain
	asked    map[string]int    // by identifier and domain
}

// wanted is what a repository lacks and where it may be.
type wanted struct {
	missing []string
	urls    []string
}

// served is a URL of a server.
type served struct {
	has        []string
	outcome    uint32 // instead of what has says
	retryAfter int64
	took       int64
	moved      string
}

type landing struct {
	at, from int64
	order    int
	work     Work
	stopped  bool
}

type span struct{ from, to int64 }

func newWorld(t Throttle, c Clamps) *world {
	return &world{
		q: New(t, c), now: began, repos: map[string]*wanted{}, urls: map[string]*served{},
		disk: map[string]*Record{}, requests: map[string][]span{}, asked: map[string]int{}, tell: func(string, ...any) {},
	}
}

func domainOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

func (w *world) event(key string, origin uint32) {
	w.q.Add(w.now, Event{Key: key, Name: "30617:ab:" + key, Origin: origin, Kind: 30618})
	w.work()
}

// Forget ends a search, whatever is missing.
func (q *Queue) Forget(key string) {
	if r := q.repos[key]; r != nil {
		q.finish(r, Forgotten)
	}
}

// work does what the queue wants now, and tells what ended.
func (w *world) work() {
	for {
		list := w.q.Work(w.now)
		if slices.ContainsFunc(list, func(work Work) bool { return work.Kind == Fetch }) {
			w.keep()
		}
		w.paused += len(w.q.Paused())
		for _, e := range w.q.Ended() {
			w.tell("%s ended %s after %d rounds", e.Key, e.Outcome, e.Attempts)
		}
		if len(list) == 0 {
			return
		}
		for _, work := range list {
			if work.Kind == Look {
				p := w.look(work.Key)
				w.tell("%s round: %d missing", work.Key, p.Missing)
				w.q.Looked(w.now, work.Ticket, p)
				continue
			}
			if work.Kind == Check {
				p := w.look(work.Key)
				w.tell("%s check: %d missing", work.Key, p.Missing)
				w.q.Looked(w.now, work.Ticket, Plan{Missing: p.Missing})
				continue
			}
			if work.Kind == Stop {
				w.tell("%s stop %s", work.Key, work.URL.Text)
				i := slices.IndexFunc(w.busy, func(l landing) bool { return l.work.Ticket == work.Ticket })
				l := w.busy[i]
				w.busy = slices.Delete(w.busy, i, i+1)
				l.stopped = true
				w.land(l)
				continue
			}
			w.tell("%s ask %s", work.Key, work.URL.Text)
			s := w.urls[work.URL.Text]
			if s == nil {
				s = &served{outcome: abi.OutcomeDNS, took: 100}
			}
			w.order++
			w.asked[work.Key+" "+work.URL.Domain]++
			w.busy = append(w.busy, landing{at: w.now + s.took, from: w.now, order: w.order, work: work})
		}
	}
}

// keep writes what is known of domains.
func (w *world) keep() {
	for name, r := range w.q.Changed() {
		if w.disk[name] = r; r == nil {
			delete(w.disk, name)
		}
	}
}

// crash ends the process with all that it is doing, and starts it again. The caller must add the
// held events.
func (w *world) crash(t *testing.T) {
	t.Helper()
	for _, l := range w.busy {
		w.tell("%s lost %s", l.work.Key, l.work.URL.Text)
		w.requests[l.work.URL.Domain] = append(w.requests[l.work.URL.Domain], span{l.from, w.now})
	}
	w.busy = nil
	text, err := json.Marshal(w.disk)
	if err != nil {
		t.Fatal(err)
	}
	var known map[string]*Record
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	w.q = New(w.q.throttle, w.q.clamps)
	for _, name := range w.q.Restore(w.now, known) {
		delete(w.disk, name)
	}
}

func (w *world) look(key string) Plan {
	r := w.repos[key]
	if r == nil {
		return Plan{}
	}
	p := Plan{Missing: len(r.missing)}
	for _, url := range r.urls {
		p.URLs = append(p.URLs, URL{url, domainOf(url)})
	}
	return p
}

// land ends a request.
func (w *world) land(l landing) {
	url := l.work.URL.Text
	s, r := w.urls[url], w.repos[l.work.Key]
	w.requests[l.work.URL.Domain] = append(w.requests[l.work.URL.Domain], span{l.from, w.now})
	result := Result{Outcome: abi.OutcomeDNS, Missing: len(r.missing)}
	if s != nil {
		result.Outcome, result.RetryAfter = s.outcome, s.retryAfter
	}
	if s != nil && s.moved != "" {
		result.Moved = URL{s.moved, domainOf(s.moved)}
		result.Outcome = abi.OutcomeNotFound
	}
	if l.stopped {
		result.Outcome = abi.OutcomeTimeout
	}
	if result.Outcome == abi.OutcomeUnspecified {
		before := len(r.missing)
		r.missing = slices.DeleteFunc(r.missing, func(id string) bool { return slices.Contains(s.has, id) })
		result.Missing, result.Found = len(r.missing), before-len(r.missing)
		switch {
		case result.Missing == 0:
			result.Outcome = abi.OutcomeOK
		case result.Found > 0:
			result.Outcome = abi.OutcomePartial
		default:
			result.Outcome = abi.OutcomeNotFound
		}
	}
	w.tell("%s got %s from %s", l.work.Key, outcomeNames[result.Outcome], url)
	w.q.Done(w.now, l.work.Ticket, result)
}

var outcomeNames = map[uint32]string{
	abi.OutcomeOK: "everything", abi.OutcomePartial: "a part", abi.OutcomeNotFound: "nothing", abi.OutcomeRateLimited: "rate-limited",
	abi.OutcomeTimeout: "timeout", abi.OutcomeServer: "server", abi.OutcomeDNS: "dns",
}

// until lets time pass.
func (w *world) until(at int64) {
	for {
		next, ok := w.q.Due()
		if ok {
			next = max(next, w.now)
		}
		if len(w.busy) > 0 {
			slices.SortFunc(w.busy, func(a, b landing) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
			if !ok || w.busy[0].at <= next {
				next, ok = w.busy[0].at, true
			}
		}
		if !ok || next > at {
			w.now = at
			return
		}
		w.now = next
		if len(w.busy) > 0 && w.busy[0].at <= w.now {
			l := w.busy[0]
			w.busy = w.busy[1:]
			w.land(l)
		}
		w.work()
	}
}

// check reports a domain that had more requests than allowed, at the same time or in a
// window.
func (w *world) check(atOnce, perMinute int, window int64) error {
	for _, name := range slices.Sorted(maps.Keys(w.requests)) {
		spans := slices.SortedFunc(slices.Values(w.requests[name]), func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for i, s := range spans {
			if i >= perMinute && s.from-spans[i-perMinute].from < window {
				return fmt.Errorf("%s was asked %d times within %d ms", name, perMinute+1, s.from-spans[i-perMinute].from)
			}
			n := 0
			for _, o := range spans[:i+1] {
				if o.to > s.from {
					n++
				}
			}
			if n > atOnce {
				return fmt.Errorf("%s was asked %d times at once", name, n)
			}
		}
	}
	return nil
}
