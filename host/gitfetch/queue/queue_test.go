package queue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"talon/sdk/abi"
)

// nothingLeft expects that a queue whose searches have all ended keeps nothing of
// them.
func nothingLeft(t *testing.T, q *Queue) {
	t.Helper()
	if q.stopping != 0 || len(q.waitingForRoom) != 0 || len(q.repos) != 0 || q.timeline.Len() != 0 || len(q.flights) != 0 || q.inFlight != 0 || q.rounds != 0 || q.checking != 0 ||
		len(q.checks) != 0 {
		t.Errorf("%d searches, %d planned, %d under way, %d requests, %d rounds are left",
			len(q.repos), q.timeline.Len(), len(q.flights), q.inFlight, q.rounds)
	}
	for name, d := range q.domains {
		if d.inFlight != 0 || len(d.queue) != 0 {
			t.Errorf("%s has %d requests and %d that wait", name, d.inFlight, len(d.queue))
		}
	}
}

// TestManyRepositories has 1,000 repositories search on 20 domains with the default
// limits: no domain is asked too often, none idles while it has work and room, and
// within a domain nobody is served twice more than another.
func TestManyRepositories(t *testing.T) {
	const repositories, domains = 1000, 20
	clamps := DefaultClamps
	clamps.All, clamps.Rounds = 200, 2000
	w := newWorld(byTheBook(), clamps)
	for i := range repositories {
		// Every repository is on three of the domains; its data is nowhere.
		r := &wanted{missing: []string{"x"}}
		for j := range 3 {
			url := fmt.Sprintf("https://d%d/%d", (i+j*7)%domains, i)
			r.urls = append(r.urls, url)
			w.urls[url] = &served{took: 3000}
		}
		w.repos[fmt.Sprint(i)] = r
		w.event(fmt.Sprint(i), abi.OriginSync)
	}
	const minutes = 5
	w.until(began + minutes*60_000)
	if err := w.check(5, 30, 60_000); err != nil {
		t.Error(err)
	}
	for i := range domains {
		name := fmt.Sprint("d", i)
		// At 5 at the same time and 3 s each, 30 are asked in the first 18 s of each
		// minute.
		if n := len(w.requests[name]); n < 30*minutes-5 {
			t.Errorf("%s was asked %d times in %d minutes, want nearly 30 a minute: it idled", name, n, minutes)
		}
		low, limit := 1<<30, 0
		for j := range repositories {
			if r := w.repos[fmt.Sprint(j)]; domainOf(r.urls[0]) == name || domainOf(r.urls[1]) == name || domainOf(r.urls[2]) == name {
				n := w.asked[fmt.Sprint(j, " ", name)]
				low, limit = min(low, n), max(limit, n)
			}
		}
		if limit > low+1 {
			t.Errorf("%s was asked %d times for one repository and %d times for another", name, low, limit)
		}
	}
	for i := range repositories {
		w.q.Forget(fmt.Sprint(i))
	}
	w.until(w.now + 10_000)
	nothingLeft(t, w.q)
}

// TestHostileThrottles has throttles that answer "now" for ever, "never", or anything:
// the clamps hold, and searches end in time.
func TestHostileThrottles(t *testing.T) {
	for name, throttle := range map[string]Throttle{
		"now":      answering{admit: abi.ThrottleAdmitAnswer{Start: true}},
		"never":    answering{delay: abi.DelayAnswer{Delay: abi.MaxDelay, Expiry: abi.MaxDelay}, admit: abi.ThrottleAdmitAnswer{Wait: abi.MaxDelay}},
		"on end":   answering{}, // wait for the end of a request where there is none
		"nobody":   answering{admit: abi.ThrottleAdmitAnswer{Start: true}, pick: abi.PickAnswer{None: true}},
		"beyond":   answering{admit: abi.ThrottleAdmitAnswer{Start: true}, pick: abi.PickAnswer{Index: 1 << 31}},
		"negative": answering{delay: abi.DelayAnswer{Delay: -1 << 62, Expiry: -1}, after: abi.AfterAnswer{Delay: -1 << 62}, admit: abi.ThrottleAdmitAnswer{Wait: -5}},
		"gives up": answering{admit: abi.ThrottleAdmitAnswer{Start: true}, after: abi.AfterAnswer{GiveUp: true}},
		"anything": erratic{rand.New(rand.NewPCG(1, 2))},
		"careful":  DefaultBackoff{},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			clamps := DefaultClamps
			clamps.All, clamps.AtOnce, clamps.PerMinute, clamps.MaxExpiry = 7, 3, 20, 40*60_000
			w := newWorld(throttle, clamps)
			highest := 0
			for i := range 30 {
				r := &wanted{missing: []string{"x"}}
				for j := range 4 {
					url := fmt.Sprintf("https://d%d/%d", j%3, i)
					r.urls = append(r.urls, fmt.Sprintf("https://d%d/%d/%d", j%3, i, j))
					w.urls[url] = &served{took: int64(random.IntN(5000))}
				}
				w.repos[fmt.Sprint(i)] = r
				w.event(fmt.Sprint(i), uint32(i%4))
				highest = max(highest, w.q.InFlight())
			}
			for range 2400 {
				w.until(w.now + 3000)
				highest = max(highest, w.q.InFlight())
			}
			if err := w.check(3, 20, 60_000); err != nil {
				t.Error(err)
			}
			if highest > 7 {
				t.Errorf("%d requests at once, want 7 at most", highest)
			}
			nothingLeft(t, w.q)
		})
	}
}

// answering gives the same answers always.
type answering struct {
	delay abi.DelayAnswer
	admit abi.ThrottleAdmitAnswer
	after abi.AfterAnswer
	pick  abi.PickAnswer
}

func (a answering) Delay(*abi.DelayRequest) abi.DelayAnswer                 { return a.delay }
func (a answering) Admit(*abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer { return a.admit }
func (a answering) After(*abi.AfterRequest) abi.AfterAnswer                 { return a.after }
func (a answering) Pick(*abi.PickRequest) abi.PickAnswer                    { return a.pick }

// erratic answers anything.
type erratic struct{ r *rand.Rand }

func (e erratic) Delay(*abi.DelayRequest) abi.DelayAnswer {
	return abi.DelayAnswer{Delay: e.r.Int64N(600_000) - 1000, Expiry: e.r.Int64N(600_000) - 1000}
}

func (e erratic) Admit(*abi.ThrottleAdmitRequest) abi.ThrottleAdmitAnswer {
	return abi.ThrottleAdmitAnswer{Start: e.r.IntN(2) == 0, Wait: e.r.Int64N(60_000) - 1000}
}

func (e erratic) After(*abi.AfterRequest) abi.AfterAnswer {
	return abi.AfterAnswer{Delay: e.r.Int64N(60_000) - 1000, GiveUp: e.r.IntN(20) == 0, Health: uint32(e.r.IntN(6))}
}

func (e erratic) Pick(q *abi.PickRequest) abi.PickAnswer {
	return abi.PickAnswer{Index: uint32(e.r.IntN(len(q.Waiting) + 1)), None: e.r.IntN(5) == 0}
}

// TestAnything does things in random order, and expects that nothing is lost: every
// search ends, and all that was begun is put away.
func TestAnything(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		clamps := DefaultClamps
		clamps.All, clamps.Rounds, clamps.URLs, clamps.Domains, clamps.AtOnce = 1+r.IntN(6), 1+r.IntN(4), 3, 4, 1+r.IntN(3)
		book := byTheBook()
		book.atOnce, book.perMinute = 1+uint32(r.IntN(3)), 3+r.IntN(10)
		w := newWorld(book, clamps)
		for range 300 {
			key := fmt.Sprint(r.IntN(12))
			switch r.IntN(9) {
			case 0, 1, 2:
				wants := &wanted{missing: []string{"x", "y"}}
				for range r.IntN(6) {
					url := fmt.Sprintf("https://d%d/%d", r.IntN(8), r.IntN(5))
					wants.urls = append(wants.urls, url)
					w.urls[url] = &served{took: int64(r.IntN(20_000)), outcome: []uint32{0, 0, 0, abi.OutcomeTimeout, abi.OutcomeServer}[r.IntN(5)]}
					switch r.IntN(5) {
					case 0:
						w.urls[url].has = []string{"x"}
					case 1:
						w.urls[url].has = []string{"y"}
					case 2:
						w.urls[url].moved = fmt.Sprintf("https://d%d/%d", r.IntN(8), r.IntN(5))
					}
				}
				w.repos[key] = wants
				w.event(key, uint32(r.IntN(3)))
			case 3:
				w.q.Forget(key)
				w.work()
			case 4:
				if wants := w.repos[key]; wants != nil && r.IntN(2) == 0 {
					wants.missing = nil
				}
				w.q.Released(key, []Outcome{Complete, Forgotten}[r.IntN(2)])
				w.work()
			case 5:
				if w.repos[key] != nil {
					w.q.FetchNow(w.now, key, "30617:ab:"+key)
					w.work()
				}
			default:
				w.until(w.now + int64(r.IntN(30_000)))
			}
			if w.q.inFlight > clamps.All || w.q.rounds > clamps.Rounds || len(w.q.domains) > clamps.Domains {
				t.Fatalf("seed %d: %d requests, %d rounds, %d domains", seed, w.q.inFlight, w.q.rounds, len(w.q.domains))
			}
		}
		w.until(w.now + 7_200_000)
		nothingLeft(t, w.q)
		if err := w.check(int(book.atOnce), book.perMinute, 60_000); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestTooMany(t *testing.T) {
	clamps := DefaultClamps
	clamps.Repositories, clamps.URLs = 2, 3
	w := newWorld(byTheBook(), clamps)
	if !w.q.Add(began, Event{Key: "a"}) || !w.q.Add(began, Event{Key: "b"}) || w.q.Add(began, Event{Key: "c"}) || w.q.FetchNow(began, "c", "") {
		t.Error("the number of searches is not bounded")
	}
	if !w.q.Add(began, Event{Key: "a"}) {
		t.Error("a search that is there is refused")
	}
	r := &wanted{missing: []string{"x"}}
	for i := range 500 {
		r.urls = append(r.urls, fmt.Sprintf("https://d%d/", i))
	}
	w.repos["a"] = r
	w.until(began + 10_000)
	if len(w.requests) != 3 {
		t.Errorf("%d of 500 URLs were asked in a round, want 3", len(w.requests))
	}
}

// TestSkipped has a URL that was not asked after all: the domain's limits are as
// before.
func TestSkipped(t *testing.T) {
	q := New(byTheBook(), DefaultClamps)
	q.FetchNow(began, "a", "")
	look := q.Work(began)[0]
	q.Looked(began, look.Ticket, Plan{URLs: []URL{{"https://d/1", "d"}}, Missing: 1})
	fetch := q.Work(began)
	if len(fetch) != 1 || fetch[0].Kind != Fetch {
		t.Fatalf("%+v", fetch)
	}
	q.Done(began+1, fetch[0].Ticket, Result{Skipped: true, Missing: 1})
	q.Done(began+1, fetch[0].Ticket, Result{Skipped: true, Missing: 1}) // a ticket counts once
	if d := q.domains["d"]; len(d.Starts) != 0 || d.inFlight != 0 || d.requests != 0 || d.Failures != 0 {
		t.Errorf("%+v", d)
	}
	if s, _ := q.Repository("a"); s.Next != began+1+20_000 {
		t.Errorf("%+v", s)
	}
}

// TestNews has an event come while somebody finds out that nothing is missing: what it
// lacks is searched for all the same.
func TestNews(t *testing.T) {
	q := New(byTheBook(), DefaultClamps)
	event := func(now int64) { q.Add(now, Event{Key: "a", Origin: abi.OriginSync}) }
	next := func(at int64) Work {
		t.Helper()
		if due, ok := q.Due(); !ok || due > at {
			t.Fatalf("nothing is due at %d", at-began)
		}
		list := q.Work(at)
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		return list[0]
	}
	event(began)
	look := next(began + 500)
	event(began + 600)
	q.Looked(began+700, look.Ticket, Plan{})
	if s, ok := q.Repository("a"); !ok || s.Next != began+1100 {
		t.Fatalf("after a look: %+v, %v", s, ok)
	}
	look = next(began + 1100)
	q.Looked(began+1100, look.Ticket, Plan{URLs: []URL{{"https://d/a", "d"}}, Missing: 1})
	fetch := q.Work(began + 1100)[0]
	event(began + 1200)
	q.Done(began+1300, fetch.Ticket, Result{Outcome: abi.OutcomeOK})
	if s, ok := q.Repository("a"); !ok || s.Next != began+1700 {
		t.Fatalf("after a request: %+v, %v", s, ok)
	}
	look = next(began + 1700)
	q.Looked(began+1700, look.Ticket, Plan{})
	if list := q.Ended(); len(list) != 1 || list[0].Outcome != Complete {
		t.Errorf("%+v", list)
	}
	nothingLeft(t, q)
}

// TestLeft has events leave while somebody finds out whether anything is missing: the
// answer may be older than that, and is asked for again. There are never more such
// questions than rounds, and none about what has ended.
func TestLeft(t *testing.T) {
	clamps := DefaultClamps
	clamps.Rounds = 1
	q := New(byTheBook(), clamps)
	for _, key := range []string{"a", "b", "c"} {
		q.Add(began, Event{Key: key, Origin: abi.OriginClient})
		q.Released(key, Forgotten)
		q.Released(key, Forgotten)
	}
	q.Released("unknown", Complete)
	check := func(key string) Ticket {
		t.Helper()
		list := q.Work(began)
		if len(list) != 1 || list[0].Kind != Check || list[0].Key != key {
			t.Fatalf("%+v, want a check of %s", list, key)
		}
		return list[0].Ticket
	}
	first := check("a")
	q.Released("a", Complete)
	if list := q.Work(began); len(list) != 0 {
		t.Fatalf("two at once: %+v", list)
	}
	q.Looked(began, first, Plan{Missing: 3})
	q.Looked(began, first, Plan{}) // a ticket counts once
	if s, ok := q.Repository("a"); !ok || s.Missing != 3 || s.Next != began+180_000 {
		t.Errorf("%+v, %v", s, ok)
	}
	second := check("b")
	q.Add(began, Event{Key: "b", Origin: abi.OriginSync})
	q.Looked(began, second, Plan{}) // an event came meanwhile
	if s, ok := q.Repository("b"); !ok || s.Next != began+500 {
		t.Errorf("%+v, %v", s, ok)
	}
	third := check("c")
	q.Looked(began, third, Plan{})
	q.Looked(began, check("a"), Plan{})
	if list := q.Ended(); len(list) != 2 || list[0].Key != "c" || list[0].Outcome != Forgotten || list[1].Key != "a" || list[1].Outcome != Complete {
		t.Errorf("%+v", list)
	}

	q.Released("b", Complete)
	look := q.Work(began + 500)
	if len(look) != 2 || look[0].Kind != Look || look[1].Kind != Check {
		t.Fatalf("%+v", look)
	}
	q.Released("b", Complete)
	q.Looked(began+500, look[1].Ticket, Plan{}) // during a round
	q.Looked(began+500, look[0].Ticket, Plan{Missing: 1, URLs: []URL{{"https://d/b", "d"}}})
	if list := q.Work(began + 500); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	nothingLeft(t, q)
}

func TestStatus(t *testing.T) {
	w := newWorld(byTheBook(), DefaultClamps)
	w.repos["a"] = &wanted{missing: []string{"x"}, urls: []string{"https://one/a", "https://two/a"}}
	w.urls["https://one/a"] = &served{took: 100}
	w.urls["https://two/a"] = &served{took: 5000}
	w.event("a", abi.OriginSync)
	w.event("b", abi.OriginClient)
	w.until(began + 1000)
	list := w.q.Repositories(10)
	if len(list) != 2 || list[0].Key != "a" || fmt.Sprint(list[0].Asking) != "[https://two/a]" || list[0].Missing != 1 || list[0].Next != 0 ||
		list[0].Last.URL != "https://one/a" || list[0].Last.Outcome != abi.OutcomeNotFound || list[1].Next != began+180_000 {
		t.Errorf("%+v", list)
	}
	domains := w.q.Domains(w.now, 1)
	if len(domains) != 1 || domains[0].Name != "two" || domains[0].InFlight != 1 || domains[0].LastMinute != 1 {
		t.Errorf("%+v", domains)
	}
	if len(w.q.Repositories(1)) != 1 || w.q.Len() != 2 || w.q.InFlight() != 1 {
		t.Error("the lists are not bounded")
	}
}

// TestWaitingCostsLittle has 10,000 repositories wait: what they cost in memory, and
// that nothing is done while nothing is due.
func TestWaitingCostsLittle(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := newWorld(byTheBook(), DefaultClamps)
	for i := range 10_000 {
		w.q.Add(began, Event{Key: fmt.Sprintf("identifier-%d", i), Name: fmt.Sprintf("30617:%064d:identifier-%d", i, i)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapAlloc) - int64(before.HeapAlloc); n > 20<<20 {
		t.Errorf("10,000 searches take %d bytes, want at most 20 MiB", n)
	} else {
		t.Logf("10,000 searches take %.1f MiB", float64(n)/(1<<20))
	}
	if at, ok := w.q.Due(); !ok || at != began+500 {
		t.Errorf("due at %d", at-began)
	}
	if n := testing.AllocsPerRun(100, func() { w.q.Work(began + 1); w.q.Due() }); n != 0 {
		t.Errorf("a look at the queue allocates %v times", n)
	}
	runtime.KeepAlive(w)
}

// BenchmarkRound is a round of a repository with one URL, and its end.
func BenchmarkRound(b *testing.B) {
	q := New(answering{admit: abi.ThrottleAdmitAnswer{Start: true}}, DefaultClamps)
	urls := []URL{{"https://d/1", "d"}}
	now := began
	for b.Loop() {
		now += 60_000
		q.FetchNow(now, "a", "30617:ab:a")
		for _, w := range q.Work(now) {
			q.Looked(now, w.Ticket, Plan{URLs: urls, Missing: 1})
		}
		for _, w := range q.Work(now) {
			q.Done(now, w.Ticket, Result{Outcome: abi.OutcomeOK})
		}
		q.Ended()
	}
}

// TestWaitForAnEndThatNeverComes has a throttle want to be asked after the end of a
// request to a domain that has none: it is asked again all the same.
func TestWaitForAnEndThatNeverComes(t *testing.T) {
	book := byTheBook()
	refusals := 2
	book.wait = func(*abi.ThrottleAdmitRequest) (abi.ThrottleAdmitAnswer, bool) {
		refusals--
		return abi.ThrottleAdmitAnswer{}, refusals >= 0
	}
	w := newWorld(book, DefaultClamps)
	w.repos["a"] = &wanted{missing: []string{"x"}, urls: []string{"https://d/a"}}
	w.urls["https://d/a"] = &served{has: []string{"x"}}
	w.event("a", abi.OriginSync)
	w.until(began + 3*idle)
	if len(w.repos["a"].missing) != 0 {
		t.Error("the domain was never asked")
	}
}

// TestOneMakesWayForOne has one repository wait for room: one request is stopped for
// it, however often the queue is asked before that has ended.
func TestOneMakesWayForOne(t *testing.T) {
	clamps := DefaultClamps
	clamps.All = 2
	q := New(answering{admit: abi.ThrottleAdmitAnswer{Start: true}}, clamps)
	var fetches []Work
	look := func(now int64, key string) {
		q.FetchNow(now, key, "")
		for _, w := range q.Work(now) {
			q.Looked(now, w.Ticket, Plan{URLs: []URL{{"https://" + key, key}}, Missing: 1})
		}
		fetches = append(fetches, q.Work(now)...)
	}
	look(began, "a")
	look(began+1, "b")
	look(began+2, "c")
	if at, ok := q.Due(); len(fetches) != 2 || !ok || at != began+clamps.Patience {
		t.Fatalf("%+v, due at %d", fetches, at-began)
	}
	now := began + clamps.Patience + 10
	stops := append(q.Work(now), q.Work(now)...)
	if len(stops) != 1 || stops[0].Kind != Stop || stops[0].Ticket != fetches[0].Ticket {
		t.Fatalf("%+v", stops)
	}
	q.Done(now, fetches[0].Ticket, Result{Outcome: abi.OutcomeTimeout, Missing: 1})
	if list := q.Work(now); len(list) != 1 || list[0].Key != "c" {
		t.Errorf("%+v", list)
	}
	if list := q.Paused(); len(list) != 1 || list[0].Key != "a" || list[0].Next != now+clamps.MinBackoff {
		t.Errorf("%+v", list)
	}
}

// TestCrowded has forty domains at one address that takes three connections. A domain that finds
// no room is asked as soon as another request has ended. Nothing counts against a domain or a
// search, and the address never idles.
func TestCrowded(t *testing.T) {
	const domains, room, took = 40, 3, 3000
	q := New(byTheBook(), DefaultClamps)
	now := int64(0)
	for i := range domains {
		if !q.FetchNow(now, fmt.Sprint(i), "") {
			t.Fatal("the search is not taken")
		}
	}
	type request struct {
		ticket Ticket
		ends   int64
	}
	var open []request
	refused, complete := 0, 0
	for complete < domains {
		for {
			list := q.Work(now)
			if len(list) == 0 {
				break
			}
			for _, w := range list {
				switch {
				case w.Kind == Look:
					q.Looked(now, w.Ticket, Plan{Missing: 1, URLs: []URL{{"https://d" + w.Key + "/x", "d" + w.Key}}})
				case len(open) == room:
					refused++
					q.Done(now, w.Ticket, Result{Crowded: true, Missing: 1})
				default:
					open = append(open, request{w.Ticket, now + took})
				}
			}
		}
		for _, e := range q.Ended() {
			if complete++; e.Outcome != Complete {
				t.Errorf("the search for %s ends %v", e.Key, e.Outcome)
			}
		}
		if len(open) == 0 {
			if complete < domains {
				t.Fatalf("the address idles at %d s, %d of %d searches are complete", now/second, complete, domains)
			}
			break
		}
		if complete+len(open) < domains && len(open) < room {
			t.Fatalf("%d requests are open at %d s, though others wait", len(open), now/second)
		}
		now = open[0].ends
		q.Done(now, open[0].ticket, Result{Outcome: abi.OutcomeOK, Found: 1})
		open = open[1:]
	}
	nothingLeft(t, q)
	for _, d := range q.Domains(now, domains) {
		if d.Requests != 1 || d.Failures != 0 {
			t.Errorf("%s: %d requests, %d failures", d.Name, d.Requests, d.Failures)
		}
	}
	// Forty find the address full once, and each end of a request lets one try.
	if refused > 2*domains {
		t.Errorf("%d attempts found no room", refused)
	}
}

// TestCrowdedByOthers: what takes the room may be no request of the queue's own. A domain
// that found none is looked at again after a while.
func TestCrowdedByOthers(t *testing.T) {
	q := New(byTheBook(), DefaultClamps)
	q.FetchNow(0, "x", "")
	now, last, tries := int64(0), int64(0), 0
	for tries < 4 {
		list := q.Work(now)
		for _, w := range list {
			switch w.Kind {
			case Look:
				q.Looked(now, w.Ticket, Plan{Missing: 1, URLs: []URL{{"https://d/x", "d"}}})
			case Fetch:
				if now-last > capacityRest {
					t.Errorf("the domain rests for %d s", (now-last)/second)
				}
				tries, last = tries+1, now
				q.Done(now, w.Ticket, Result{Crowded: true, Missing: 1})
			}
		}
		if at, ok := q.Due(); ok && len(list) == 0 {
			now = max(now, at)
		} else if !ok && len(list) == 0 {
			t.Fatal("nothing is ever due")
		}
	}
}

// TestSince: what has waited before a restart waits the rest of its time, and expires when it would
// have without one.
func TestSince(t *testing.T) {
	const minute = 60_000
	for i, tt := range []struct {
		ago, next, expires int64
		origin             uint32
	}{
		{0, 3 * minute, 30 * minute, abi.OriginClient}, {minute, 2 * minute, 29 * minute, abi.OriginClient},
		{10 * minute, 0, 20 * minute, abi.OriginClient}, {minute, 0, 29 * minute, abi.OriginSync}, {-minute, 3 * minute, 30 * minute, abi.OriginClient},
	} {
		w := newWorld(byTheBook(), DefaultClamps)
		w.q.Add(began, Event{Key: "a", Name: "a", Origin: tt.origin, Since: began - tt.ago})
		if r, ok := w.q.Repository("a"); !ok || r.Next-began != tt.next || r.Expires-began != tt.expires {
			t.Errorf("%d: %+v, want the next round in %d ms and the end in %d", i, r, tt.next, tt.expires)
		}
	}
}
