package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relaymodel"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
)

// observer sees everything that happens in a run, and measures it.
type observer struct {
	e       *engine
	remotes map[string]*remote // by URL
	run     result.Run
	bucket  int64

	wanted, here int      // events that are wanted now, and those of them that are here
	state        [][]flag // by Talon and number of the event
	missing      []map[uint32]int64
	ideal        int64 // bytes of each wanted event sent once
	up, down     int64
	duplicates   int64
	connections  int
	max          int
	faults       map[*world.Fault]*recovery
	recovering   []*recovery
	trace        *tracer
	check        invariants
	git          gitCounts
}

// flag is what is so of an event for a Talon.
type flag uint8

const (
	available flag = 1 << iota // it can be had
	isHere
	ended // nobody wants it any more
)

// relayCounts is what a relay had to do with the Talons.
type relayCounts struct {
	up, down, events, connections, connected int64
	reqs, negOpens, limited                  int64
	load                                     []int64
	quiet                                    halfHours // requests in the last quarter of the quiet time
	seconds                                  map[int64]int64
	peak                                     int64 // most requests in a second
}

// request counts a REQ or NEG-OPEN that is sent at a time, now or later.
func (c *relayCounts) request(now, at int64) {
	if c.seconds == nil {
		c.seconds = map[int64]int64{}
	}
	const kept = 1024 // seconds
	if len(c.seconds) > kept {
		maps.DeleteFunc(c.seconds, func(second, _ int64) bool { return second < now/1000 })
	}
	c.seconds[at/1000]++
	c.peak = max(c.peak, c.seconds[at/1000])
}

// recovery is what a fault has held back.
type recovery struct {
	fault *world.Fault
	row   int // in the result
	until int64
	left  int
}

func (o *observer) begin(e *engine) {
	w := e.w
	o.e = e
	o.remotes = map[string]*remote{}
	o.bucket = w.Scenario.BucketMS()
	o.faults = map[*world.Fault]*recovery{}
	o.run = result.Run{
		Scenario: result.Scenario{Name: w.Scenario.Name, Digest: w.Scenario.Digest(), Duration: e.seconds(w.End)},
		Level:    e.cfg.Level, Seed: w.Seed,
	}
	about := e.cfg.Strategy.About()
	o.run.Strategy = &about
	if e.cfg.Throttle != nil {
		about := e.cfg.Throttle.About()
		o.run.Throttle = &about
	}
	o.run.Series.Every = e.seconds(o.bucket)
	for range w.Talons {
		o.state = append(o.state, make([]flag, len(w.Events)))
		o.missing = append(o.missing, map[uint32]int64{})
	}
	if e.cfg.Trace != "" {
		o.trace = &tracer{e: e, relay: e.cfg.Trace}
	}
	o.git.begin(e)
	o.check.begin(o)
	e.At(0, o.sample)
}

// published schedules the changes that an event of the world causes: when it is available
// and when it ends.
func (o *observer) published(ev *world.Event) {
	e := o.e
	for t := range e.w.Talons {
		if !e.w.Wants(t, ev) {
			continue
		}
		at, ok := e.availableAt(t, ev)
		if !ok || ev.Ended > 0 && ev.Ended <= max(at, 1) {
			continue
		}
		e.At(max(0, at), func() { o.change(t, ev, available) })
		if ev.Ended > 0 {
			e.At(ev.Ended, func() { o.change(t, ev, ended) })
		}
	}
}

// availableAt returns when a Talon can have an event for the first time. If relays lose events, it
// also needs the thread of the event.
func (e *engine) availableAt(talon int, ev *world.Event) (first int64, ok bool) {
	from := int64(math.MinInt64)
	if e.w.Loses && ev.Thread != nil {
		if from, ok = e.availableAt(talon, ev.Thread); !ok {
			return 0, false
		}
	}
	first = never
	for _, c := range ev.Copies {
		at := c.At
		if _, ok := e.w.IsTalon(c.Place); !ok {
			r := e.w.Relays[c.Place]
			if !r.Honest {
				continue
			}
			if at, ok = e.servedAt(r, ev, c.At, max(c.At, from)); !ok {
				continue
			}
		}
		first = min(first, at)
	}
	if ev.Data != nil {
		first = max(first, e.dataAt(talon, ev))
	}
	return first, first < e.w.End
}

// servedAt returns when a relay that an event was sent to can be asked for it, from a time on. If the
// relay does not store it, only those who listen at the time of its arrival get it.
func (e *engine) servedAt(r *world.Relay, ev *world.Event, arrival, from int64) (at int64, ok bool) {
	at = reachableAt(r.Away, from)
	if !e.w.Loses {
		return at, true
	}
	fate, until := r.Profile.Fate(r.Seed, ev.Event, e.w.Start+max(0, arrival))
	switch fate {
	case relaymodel.Stored:
		return at, until == math.MaxInt64 || e.w.Start+max(0, at) < until
	case relaymodel.Dropped:
		return at, arrival > 0 && at == arrival
	}
	return 0, false
}

// recallShare is the share of the wanted events that are here, whether or not a relay still has them.
func (o *observer) recallShare() float64 {
	e := o.e
	wanted, here := 0, 0
	for t := range e.w.Talons {
		for _, ev := range e.w.Events {
			if ev.At > e.Now() || ev.Ended > 0 && ev.Ended <= e.Now() || !e.keeps(ev.Number, false) || !e.w.Wants(t, ev) {
				continue
			}
			wanted++
			if o.state[t][ev.Number]&isHere != 0 {
				here++
			}
		}
	}
	if wanted == 0 {
		return 1
	}
	return float64(here) / float64(wanted)
}

// reachableAt returns when something can be reached from a time on.
func reachableAt(away []world.Away, at int64) int64 {
	for _, a := range away {
		if at >= a.From && at < a.To {
			at = a.To
		}
	}
	return at
}

// change notes that something became so of an event for a Talon.
func (o *observer) change(talon int, ev *world.Event, f flag) {
	was := o.state[talon][ev.Number]
	is := was | f
	o.state[talon][ev.Number] = is
	counts := func(f flag) (wanted, here int) {
		if f&(available|ended) == available {
			if wanted = 1; f&isHere != 0 {
				here = 1
			}
		}
		return wanted, here
	}
	w0, h0 := counts(was)
	w1, h1 := counts(is)
	o.wanted += w1 - w0
	o.here += h1 - h0
	switch {
	case w1 > h1 && w0 == h0:
		o.missing[talon][ev.Number] = o.e.Now()
	case w1 == h1 && w0 > h0:
		at := o.missing[talon][ev.Number]
		delete(o.missing[talon], ev.Number)
		o.recovered(at)
	}
	if f == available {
		o.ideal += int64(len(ev.JSON)) + int64(len(`["EVENT","s1",]`))
	}
}

// stored takes an event that came to be here.
func (o *observer) stored(t *talon, e *host.Event) {
	ev := o.e.w.ByID[e.ID]
	o.check.stored(t, e, ev)
	if ev == nil || o.state[t.Number][ev.Number]&isHere != 0 {
		return
	}
	if ev.At >= 0 {
		o.run.Staleness.Add(time.Duration(o.e.Now()-ev.At) * time.Millisecond)
	}
	o.change(t.Number, ev, isHere)
	o.print(Progress{Stored: true})
}

// removed takes an event that was deleted or replaced.
func (o *observer) removed(t *talon, e *host.Event) {
	if ev := o.e.w.ByID[e.ID]; ev != nil && ev.Ended == 0 {
		o.check.lost(t, ev)
	}
}

// recovered counts what a fault has held back and what came.
func (o *observer) recovered(since int64) {
	o.recovering = slices.DeleteFunc(o.recovering, func(r *recovery) bool {
		if since > r.until {
			return false
		}
		r.left--
		if r.left == 0 {
			took := o.e.seconds(o.e.Now() - r.until)
			o.run.Faults[r.row].Recovered = &took
		}
		return r.left == 0
	})
}

func (o *observer) faultBegins(f *world.Fault) {
	where := ""
	switch n := len(f.Relays) + len(f.Talons); {
	case len(f.Git) == 1 && n == 0:
		where = o.e.gits[f.Git[0]].Name
	case len(f.Git) > 0 && n == 0:
		where = result.Counted(len(f.Git), "git server")
	case len(f.Relays) == 1:
		where = o.e.remotes[f.Relays[0]].Name
	case len(f.Talons) == 1:
		where = o.e.talons[f.Talons[0]].Name
	case n == len(o.e.w.Relays):
		where = "all relays"
	default:
		where = result.Counted(n, "relay")
	}
	o.faults[f] = &recovery{fault: f, row: len(o.run.Faults), until: f.Until}
	o.run.Faults = append(o.run.Faults, result.Fault{Kind: f.What, Where: where, At: o.e.seconds(f.At), Until: o.e.seconds(f.Until)})
	if o.trace != nil {
		for _, r := range f.Relays {
			o.trace.line(o.e.remotes[r].Name, f.What, "until "+o.e.seconds(f.Until).String())
		}
	}
	o.print(Progress{Line: f.What + " of " + where + " until " + time.Duration(f.Until*int64(time.Millisecond)).String()})
}

func (o *observer) faultEnds(f *world.Fault) {
	r := o.faults[f]
	if r == nil {
		return
	}
	for _, m := range o.missing {
		r.left += len(m)
	}
	if r.left == 0 {
		took := result.Seconds(0)
		o.run.Faults[r.row].Recovered = &took
		return
	}
	o.recovering = append(o.recovering, r)
}

// sample notes how it stands, and does so again.
func (o *observer) sample() {
	e := o.e
	s := &o.run.Series
	s.Completeness = append(s.Completeness, o.completeness())
	s.BytesUp = append(s.BytesUp, o.up)
	s.BytesDown = append(s.BytesDown, o.down)
	o.print(Progress{})
	if e.Now()+o.bucket <= e.end {
		e.After(o.bucket, o.sample)
	}
}

func (o *observer) completeness() float64 {
	if o.wanted == 0 {
		return 1
	}
	return float64(o.here) / float64(o.wanted)
}

// print tells who watches.
func (o *observer) print(p Progress) {
	if o.e.cfg.Watch == nil {
		return
	}
	p.Now, p.End = time.Duration(o.e.Now())*time.Millisecond, time.Duration(o.e.end)*time.Millisecond
	p.Wanted, p.Here, p.Connections = o.wanted, o.here, o.connections
	o.e.cfg.Watch(p)
}

func (o *observer) arrivedAt(ev *world.Event, r *remote) {
	if o.trace != nil {
		o.trace.line(r.Name, "published", fmt.Sprintf("kind %d", ev.Kind))
	}
}

func (o *observer) attempt(l *line) {
	o.count(result.Attempts, 1)
	o.trace.of(l, result.Line, "dial", "", 0)
	o.check.attempt(l.t)
}

func (o *observer) connected(l *line) {
	l.r.counts.connections++
	o.connections++
	o.max = max(o.max, o.connections)
	o.trace.of(l, result.Line, "connected", "", 0)
}

func (o *observer) disconnected(l *line) {
	o.connections--
	l.r.counts.connected += o.e.Now() - l.upSince
	o.trace.of(l, result.Line, "disconnected", "", 0)
	if l.model != nil {
		o.duplicates += l.model.known
	}
	if l.session != nil {
		o.duplicates += int64(l.session.Stats().Dropped[session.DropKnown])
	}
}

func (o *observer) count(m result.Measure, n float64) {
	x, _ := o.run.Measures.Get(m)
	o.run.Measures.Set(m, x+n)
}

// bytes counts those of a line.
func (o *observer) bytes(l *line, up, down int64) {
	o.up += up
	o.down += down
	c := &l.r.counts
	c.up += up
	c.down += down
	if o.e.cfg.Relays {
		n := int(o.e.Now() / o.bucket)
		for len(c.load) <= n {
			c.load = append(c.load, 0)
		}
		c.load[n] += up + down
	}
}

// frame counts a message.
func (o *observer) frame(l *line, text []byte, up bool) {
	verb := verbOf(text)
	c := &l.r.counts
	switch {
	case up && string(verb) == "REQ":
		c.reqs++
		c.request(o.e.Now(), o.e.Now())
		o.check.asked(l)
	case up && string(verb) == "NEG-OPEN":
		c.negOpens++
		c.request(o.e.Now(), o.e.Now())
		o.check.asked(l)
	case !up && string(verb) == "EVENT":
		c.events++
	}
	if o.trace.wants(l) {
		dir := result.Down
		if up {
			dir = result.Up
		}
		o.trace.of(l, dir, string(verb), shortened(text, verb), frameBytes(text, up))
	}
}

// verbOf is the first element of a message.
func verbOf(text []byte) []byte {
	_, rest, ok := bytes.Cut(text[:min(len(text), 32)], []byte(`"`))
	if !ok {
		return nil
	}
	verb, _, _ := bytes.Cut(rest, []byte(`"`))
	return verb
}

func (o *observer) command(l *line, c session.Command) {
	o.check.command(l, c)
	if o.trace.wants(l) {
		o.trace.command(l, c)
	}
}

func (o *observer) report(l *line, r session.Report) {
	o.check.report(l, r)
	if _, ok := r.(*session.Limited); ok {
		l.r.counts.limited++
	}
	if o.trace.wants(l) {
		o.trace.report(l, r)
	}
}

func (o *observer) measure(t *talon, m loop.MetricChange) { o.check.measure(t, m) }

func (o *observer) step(t *talon) { o.check.step(t) }

// strange takes an attempt to reach a relay that there is not.
func (o *observer) strange(t *talon, url string, own bool) {
	if own {
		o.check.broken("own-address", t.Name, "it connects to itself, as %s", url)
	}
}

// maxFailures is how often a module may fail until that ends a run.
const maxFailures = 20

// failed takes a failure of a module.
func (o *observer) failed(t *talon, err error) {
	if o.e.ctx.Err() != nil {
		return // it was interrupted, and is not to blame
	}
	n := 0
	for _, t := range o.e.talons {
		n += t.use[0].failures + t.use[1].failures
	}
	if n <= 3 {
		o.finding("module", t.Name, "the module failed: "+err.Error(), false)
	}
	if n >= maxFailures {
		o.e.stop(result.ModuleFailed, "a module failed "+result.Counted(n, "time")+": "+err.Error())
	}
}

func (o *observer) finding(invariant, where, text string, prefix bool) {
	f := result.Finding{Invariant: invariant, At: o.e.seconds(o.e.Now()), Relay: where, Text: text}
	if prefix {
		f.Prefix = o.e.prefix()
	}
	o.run.Findings = append(o.run.Findings, f)
}

// prefix is what has happened until now.
func (e *engine) prefix() *result.Prefix {
	p := &result.Prefix{Until: e.seconds(e.Now() + 1000)}
	for _, ev := range e.w.Events {
		if ev.At <= e.Now() && e.keeps(ev.Number, false) {
			p.Events = append(p.Events, ev.Number)
		}
	}
	for _, f := range e.w.Faults {
		if f.At <= e.Now() && e.keeps(f.Number, true) {
			p.Faults = append(p.Faults, f.Number)
		}
	}
	return p
}

// result is what the run shows.
func (o *observer) result() *result.Run {
	e, v := o.e, &o.run.Measures
	for _, t := range e.talons {
		for _, id := range slices.Sorted(maps.Keys(t.lines)) {
			if l := t.lines[id]; l.up {
				o.disconnected(l)
			}
		}
		if t.up {
			t.count()
		}
	}
	o.run.End = result.End{How: result.Finished, At: e.seconds(e.Now())}
	if e.stopped == nil {
		o.check.checkEnd()
	}
	if e.stopped != nil {
		o.run.End = *e.stopped
	}
	var ages []int64
	for t, m := range o.missing {
		for _, number := range slices.Sorted(maps.Keys(m)) {
			ev := e.w.Events[number]
			o.lost(e.talons[t], ev)
			if ev.At >= 0 {
				o.run.Staleness.Missing++
				ages = append(ages, e.Now()-ev.At)
			}
		}
	}
	v.Set(result.Completeness, o.completeness())
	v.Set(result.Recall, o.recallShare())
	o.staleness(ages)
	v.Set(result.BytesUp, float64(o.up))
	v.Set(result.BytesDown, float64(o.down))
	if o.ideal > 0 {
		v.Set(result.BytesOverIdeal, float64(o.up+o.down)/float64(o.ideal))
	}
	v.Set(result.Duplicates, float64(o.duplicates))
	v.Set(result.Connections, float64(o.max))
	o.count(result.Attempts, 0)
	o.relays()
	o.recoveries()
	o.git.result(&o.run)
	var u usage // of the strategy
	for _, t := range e.talons {
		u.steps += t.use[0].steps
		u.fuel += t.use[0].fuel
		u.memory = max(u.memory, t.use[0].memory)
	}
	v.Set(result.Steps, float64(u.steps))
	v.Set(result.Fuel, float64(u.fuel))
	v.Set(result.Memory, float64(u.memory))
	for _, t := range e.talons {
		if n := t.stats.Refused[loop.RefusedMalformed] + t.stats.Refused[loop.RefusedForbidden]; n > 0 {
			o.finding("actions", t.Name, result.Counted(int(n), "action")+" of the strategy could not be read, or is forbidden", false)
		}
	}
	if o.trace != nil {
		o.run.Trace = o.trace.result()
	}
	return &o.run
}

// lost lists an event that is missing at the end.
func (o *observer) lost(t *talon, ev *world.Event) {
	if len(o.run.Missing) == result.MaxMissing {
		o.run.Unlisted++
		return
	}
	o.run.Missing = append(o.run.Missing, result.Missing{ID: ev.ID.String(), Kind: int(ev.Kind), Talon: t.Name, Relays: o.e.holders(ev)})
}

// staleness sets the quantiles of the staleness. An event that never came counts with its
// age.
func (o *observer) staleness(ages []int64) {
	all := o.run.Staleness
	h := result.Histogram{}
	h.Merge(&all)
	h.Missing = 0
	longest := int64(0)
	for _, age := range ages {
		h.Add(time.Duration(age) * time.Millisecond)
		longest = max(longest, age)
	}
	for m, q := range map[result.Measure]float64{result.StalenessP50: 0.5, result.StalenessP99: 0.99, result.StalenessMax: 1} {
		if d, ok := h.Quantile(q); ok {
			o.run.Measures.Set(m, d.Seconds())
		}
	}
}

// relays sets what is summed over relays, and their rows.
func (o *observer) relays() {
	v := &o.run.Measures
	var hours, reqs, negOpens, limited, peak int64
	var loads []int64
	for _, r := range o.e.remotes {
		c := &r.counts
		hours += c.connected
		reqs += c.reqs
		negOpens += c.negOpens
		limited += c.limited
		if r.Class != "talon" {
			loads = append(loads, c.up+c.down)
			peak = max(peak, c.peak)
		}
		if o.e.cfg.Relays {
			o.run.Relays = append(o.run.Relays, result.Relay{
				Name: r.Name, Class: r.Class, BytesUp: c.up, BytesDown: c.down, Events: c.events, Connections: c.connections,
				Connected: o.e.seconds(c.connected), REQs: c.reqs, NegOpens: c.negOpens, RateLimited: c.limited, Peak: c.peak, Load: c.load,
			})
		}
	}
	if o.e.cfg.Relays {
		o.run.LoadEvery = o.e.seconds(o.bucket)
	}
	v.Set(result.ConnectionHours, float64(hours)/3_600_000)
	v.Set(result.REQs, float64(reqs))
	v.Set(result.NegOpens, float64(negOpens))
	v.Set(result.PeakRequests, float64(peak))
	v.Set(result.RateLimited, float64(limited))
	v.Set(result.LoadGini, gini(loads))
}

// gini is how unequal numbers are: 0 if they are all the same.
func gini(list []int64) float64 {
	slices.Sort(list)
	var sum, weighted float64
	for i, x := range list {
		sum += float64(x)
		weighted += float64(float64(i+1) * float64(x))
	}
	if sum == 0 {
		return 0
	}
	n := float64(len(list))
	return float64(2*weighted)/float64(n*sum) - (n+1)/n
}

func (o *observer) recoveries() {
	var list []time.Duration
	for _, f := range o.run.Faults {
		if f.Recovered != nil {
			list = append(list, f.Recovered.Duration())
		}
	}
	if len(list) == 0 {
		return
	}
	slices.Sort(list)
	o.run.Measures.Set(result.RecoveryP50, list[(len(list)-1)/2].Seconds())
	o.run.Measures.Set(result.RecoveryMax, list[len(list)-1].Seconds())
}
