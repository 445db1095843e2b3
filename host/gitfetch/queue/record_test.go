package queue

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"talon/sdk/abi"
)

// TestCrashes has the process end again and again, at any moment, while 100
// repositories wait for three domains: no domain is asked more often than it would
// have been without.
func TestCrashes(t *testing.T) {
	const repositories = 100
	w := newWorld(byTheBook(), DefaultClamps)
	add := func() {
		for i := range repositories {
			w.event(fmt.Sprint(i), abi.OriginSync)
		}
	}
	for i := range repositories {
		url := fmt.Sprintf("https://d%d/%d", i%3, i)
		w.repos[fmt.Sprint(i)] = &wanted{missing: []string{"x"}, urls: []string{url}}
		w.urls[url] = &served{took: 700}
	}
	add()
	for i := range 60 {
		w.until(w.now + 1000 + int64(i*i)*7%9000)
		w.crash(t)
		add()
	}
	if err := w.check(5, 30, minute); err != nil {
		t.Error(err)
	}
	for i := range 3 {
		if name := fmt.Sprint("d", i); len(w.requests[name]) < 60 {
			t.Errorf("%s was asked %d times in some minutes", name, len(w.requests[name]))
		}
	}
}

// TestChanged has each sort of change be returned once, and before its request begins.
func TestChanged(t *testing.T) {
	q := New(byTheBook(), DefaultClamps)
	q.Add(0, Event{Key: "x", Origin: abi.OriginSync})
	look := q.Work(1000)
	if q.HasChanged() {
		t.Error("something changed before a request")
	}
	q.Looked(1000, look[0].Ticket, Plan{Missing: 1, URLs: []URL{{"https://a/x", "a"}}})
	fetch := q.Work(1000)
	if r := q.Changed()["a"]; r == nil || !slices.Equal(r.Starts, []int64{1000}) {
		t.Errorf("when a request begins: %+v", r)
	}
	if q.HasChanged() || len(q.Changed()) != 0 {
		t.Error("a change is told twice")
	}
	q.Done(2000, fetch[0].Ticket, Result{Outcome: abi.OutcomeRateLimited, RetryAfter: hour, Missing: 1})
	if r := q.Changed()["a"]; r == nil || r.NotBefore != 2000+hour || r.Asked != 2000+hour || r.Failures != 1 || r.FailingSince != 2000 {
		t.Errorf("when it has ended: %+v", r)
	}
	q.NotKept("a")
	q.NotKept("unknown")
	if list := q.Changed(); len(list) != 1 || list["a"] == nil {
		t.Errorf("what could not be kept: %+v", list)
	}
	q.FetchNow(3*hour, "x", "")
	q.Looked(3*hour, q.Work(3 * hour)[0].Ticket, Plan{Missing: 1, URLs: []URL{{"https://a/x", "a"}}})
	q.Done(3*hour, q.Work(3 * hour)[0].Ticket, Result{Skipped: true, Missing: 1})
	if r := q.Changed()["a"]; r == nil || !slices.Equal(r.Starts, []int64{1000}) {
		t.Errorf("after a request that was not made: %+v", r)
	}
	q.clamps.Domains = 1
	q.domain(4*hour, "b")
	if r, ok := q.Changed()["a"]; !ok || r != nil {
		t.Errorf("a domain that was forgotten: %+v, %v", r, ok)
	}
	q.clamps.Domains = 2
	q.domain(4*hour, "c")
	q.domain(4*hour, "d")
	if q.HasChanged() {
		t.Errorf("%v: domains of which nothing was kept", q.changed)
	}
}

// TestCrowdOfDomains names domains until there is no room for more: those that failed
// are forgotten after the others, and one that asked for rest last.
func TestCrowdOfDomains(t *testing.T) {
	clamps := DefaultClamps
	clamps.Domains = 3
	q := New(byTheBook(), clamps)
	q.Restore(began, map[string]*Record{
		"resting": {NotBefore: began + hour, Failures: 1, FailingSince: began}, "failing": {FailingSince: began, Failures: 9}, "fine": {LastSuccess: began},
	})
	want := func(gone ...string) {
		t.Helper()
		changed := q.Changed()
		for _, name := range []string{"fine", "failing", "resting"} {
			if _, ok := q.domains[name]; ok == slices.Contains(gone, name) {
				t.Errorf("%s is known: %v; want all but %q", name, ok, gone)
			}
			if r, ok := changed[name]; r != nil || ok != (len(gone) > 0 && name == gone[len(gone)-1]) {
				t.Errorf("of %s is to be kept %+v, %v; %q have gone", name, r, ok, gone)
			}
		}
	}
	busy := func(name string) { q.domain(began, name).inFlight = 1 }
	busy("a")
	want("fine")
	busy("b")
	want("fine", "failing")
	busy("c")
	want("fine", "failing", "resting")
	if q.domain(began, "d") != nil {
		t.Error("a busy domain was forgotten")
	}
}

func TestRemember(t *testing.T) {
	const now = began
	clamps := DefaultClamps
	clamps.Domains = 3
	q := New(byTheBook(), clamps)
	old := q.Restore(now, map[string]*Record{
		"future":  {Starts: []int64{now + hour, now - 5}, NotBefore: now + 99*24*hour, Asked: now + 99*24*hour, FailingSince: now + hour, Failures: 7},
		"failing": {FailingSince: now - 1000, Failures: 3, Health: abi.HealthDegraded, Reason: "x"},
		"stale":   {Starts: []int64{now - memory - 1}},
		"fine":    {LastSuccess: now - 3000, Health: 99},
		"fourth":  {LastSuccess: now - 4000},
	})
	if !slices.Equal(old, []string{"fourth", "stale"}) {
		t.Errorf("%q are not remembered", old)
	}
	if names := slices.Sorted(maps.Keys(q.domains)); !slices.Equal(names, []string{"failing", "fine", "future"}) {
		t.Errorf("%q are remembered", names)
	}
	d := q.domains["future"]
	if !slices.Equal(d.Starts, []int64{now - 5, now}) || d.NotBefore != now+clamps.MaxRest || d.Asked != now+clamps.MaxRest || d.FailingSince != now {
		t.Errorf("what is in the future: %+v", d)
	}
	if d := q.domains["failing"]; d.Failures != 3 || d.FailingSince != now-1000 || d.Health != abi.HealthDegraded || d.Reason != "x" {
		t.Errorf("%+v", d)
	}
	if d := q.domains["fine"]; d.LastSuccess != now-3000 || d.Health != abi.HealthUnspecified {
		t.Errorf("%+v", d)
	}
	if q.HasChanged() {
		t.Error("what was remembered is a change")
	}
	many := &Record{}
	for i := range 1000 {
		many.Starts = append(many.Starts, now-1000+int64(i))
	}
	q = New(byTheBook(), clamps)
	q.Restore(now, map[string]*Record{"a": many})
	if d := q.domains["a"]; len(d.Starts) != abi.MaxAges || d.Starts[len(d.Starts)-1] != now-1 {
		t.Errorf("%d starts are remembered", len(d.Starts))
	}
	old = q.Restore(now, map[string]*Record{"b": {LastSuccess: now - memory}, "c": {LastSuccess: now - memory - 1}})
	if !slices.Equal(old, []string{"c"}) {
		t.Errorf("%q are old, want c", old)
	}
}
