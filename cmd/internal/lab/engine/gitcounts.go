package engine

import (
	"slices"
	"time"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host/gitfetch/queue"
)

// gitCounts is what a run measures of git servers.
type gitCounts struct {
	e            *engine
	since        []map[uint32]int64 // by Talon: from when data are waited for, by event
	waits        result.Histogram
	repos        map[int]*[2]int64 // by repository: milliseconds, events
	rests, looks int64             // servers left alone, of those that could have been asked
}

func (c *gitCounts) begin(e *engine) {
	c.e, c.repos = e, map[int]*[2]int64{}
	for range e.w.Talons {
		c.since = append(c.since, map[uint32]int64{})
	}
}

// held takes an event that begins to wait for its data, maybe once more.
func (c *gitCounts) held(t *talon, ev *world.Event) {
	if _, ok := c.since[t.Number][ev.Number]; !ok && len(ev.Data.Servers) > 0 {
		c.since[t.Number][ev.Number] = max(c.e.Now(), ev.Data.At)
	}
}

// arrived takes the data of an event.
func (c *gitCounts) arrived(t *talon, ev *world.Event) {
	if at, ok := c.since[t.Number][ev.Number]; ok && at < never {
		c.add(ev, max(0, c.e.Now()-at))
		c.since[t.Number][ev.Number] = never
	}
}

func (c *gitCounts) add(ev *world.Event, took int64) {
	c.waits.Add(time.Duration(took) * time.Millisecond)
	r := c.repos[ev.Repo.Number]
	if r == nil {
		r = new([2]int64)
		c.repos[ev.Repo.Number] = r
	}
	r[0] += took
	r[1]++
}

// result sets the measures, and the rows of servers.
func (c *gitCounts) result(run *result.Run) {
	if len(c.e.gits) == 0 {
		return
	}
	v := &run.Measures
	var requests, refusals int64
	for _, g := range c.e.gits {
		requests += g.counts.Requests
		refusals += g.counts.Refusals
		if c.e.cfg.Relays {
			g.counts.Name, g.counts.Class = g.Name, g.Class
			run.Git = append(run.Git, g.counts)
		}
	}
	for _, since := range c.since {
		for _, number := range sortedKeys(since) {
			if ev := c.e.w.Events[number]; since[number] < c.e.Now() && (ev.Ended == 0 || ev.Ended > c.e.Now()) {
				c.add(ev, c.e.Now()-since[number])
			}
		}
	}
	v.Set(result.GitRequests, float64(requests))
	v.Set(result.GitRefusals, float64(refusals))
	for m, q := range map[result.Measure]float64{result.DataP50: 0.5, result.DataP99: 0.99} {
		if d, ok := c.waits.Quantile(q); ok {
			v.Set(m, d.Seconds())
		}
	}
	var means []int64
	for _, number := range sortedKeys(c.repos) {
		means = append(means, c.repos[number][0]/c.repos[number][1])
	}
	v.Set(result.DataGini, gini(means))
	v.Set(result.GitRest, float64(c.rests)/float64(max(1, c.looks)))
}

// observe checks how it stands with git servers and what waits for them.
func (c *gitCounts) observe() {
	s, check := &c.e.w.Scenario.Invariants, &c.e.watch.check
	for _, t := range c.e.talons {
		if t.fetcher == nil {
			continue
		}
		for _, d := range t.fetcher.queue.Domains(t.now(), queue.DefaultClamps.Domains) {
			g, rest := c.e.git[d.Name], max(0, d.NotBefore-t.now())
			if g == nil || g.talon != nil || g.Lying || g.away > 0 || g.dumb > 0 {
				continue
			}
			if c.looks++; rest > 0 {
				c.rests++
			}
			if limit := s.GitRest.Milliseconds(); limit > 0 && rest > limit {
				check.broken("git-barred", g.Name, "a git server that works is left alone for %v: %s", c.e.seconds(rest).Duration(), d.Reason)
			}
		}
		limit := s.Data.Milliseconds()
		for _, ev := range t.heldInOrder() {
			since := max(t.heldUntil[ev.ID]-world.MaxHeld, t.began)
			if limit > 0 && ev.Data != nil && c.e.dataFor(ev, since, limit) {
				check.broken("data", t.Name, "git data of event %s are not here, and were to be had for %v", ev.ID, s.Data)
			}
		}
	}
}

// dataFor reports whether git data could be had for so long at a server, since a time.
func (e *engine) dataFor(ev *world.Event, since, limit int64) bool {
	return ev.Data == nil || slices.ContainsFunc(ev.Data.Servers, func(g int) bool { return e.w.Git[g].UpFor(max(since, ev.Data.At), e.Now()) >= limit })
}

// dataAt returns when a Talon can have the data of an event for the first time.
func (e *engine) dataAt(talon int, ev *world.Event) int64 {
	if ev.Data.Direct && ev.Repo.ListsTalon(talon) {
		return ev.Data.At
	}
	first := int64(never)
	for _, g := range ev.Data.Servers {
		first = min(first, reachableAt(e.w.Git[g].Away, ev.Data.At))
	}
	return first
}
