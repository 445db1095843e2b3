package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
	"talon/host/wire"
	"talon/sdk/grasp"
)

// invariants checks conditions that must hold in each step. A run stops at the first that
// fails.
type invariants struct {
	o       *observer
	second  int64 // in which steps are counted
	steps   int
	full    int // seconds one after the other in which a strategy has all its turns
	quietAt int64
	left    []departed
}

// departed is a repository that was deleted at a Talon.
type departed struct {
	t     *talon
	repo  *world.Repo
	names map[string]bool // values by which subscriptions ask for it
	at    int64
}

// openSub is a subscription that the loop keeps open on a line.
type openSub struct {
	values []string // tag and value
	since  int64
}

// checkEvery is between two looks at what takes time, in milliseconds.
const checkEvery = 10 * 60_000

func (c *invariants) begin(o *observer) {
	c.o = o
	s := o.e.w.Scenario
	c.quietAt = o.e.w.End - s.Quiet.Milliseconds()/4
	o.e.At(checkEvery, c.check)
}

// broken ends the run.
func (c *invariants) broken(name, where, format string, args ...any) {
	if c.o.e.stopped != nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	c.o.finding(name, where, text, true)
	c.o.e.stop(result.BrokenInvariant, name+": "+text)
}

// stored checks what came to be here.
func (c *invariants) stored(t *talon, e *host.Event, ev *world.Event) {
	if t.e.Now()/1000 == c.second {
		c.steps--
	}
	if ev == nil || !c.o.e.w.Wants(t.Number, ev) {
		c.broken("unwanted", t.Name, "event %s of kind %d is here, and is not wanted", e.ID, e.Kind)
	}
}

// lost checks what is here no more.
func (c *invariants) lost(t *talon, ev *world.Event) {
	c.broken("lost", t.Name, "event %s of kind %d was removed, and nobody has deleted or replaced it", ev.ID, ev.Kind)
}

func (c *invariants) attempt(t *talon) {
	if n := len(t.lines); n > t.limits.Connections {
		c.broken("limits", t.Name, "%d connections at once, of %d", n, t.limits.Connections)
	}
}

// step counts steps that no event of ours explains. The loop bounds those that a strategy
// gives itself, such as by timers that are due already: who uses them up for a minute
// turns in circles.
func (c *invariants) step(t *talon) {
	limit := t.e.w.Scenario.Invariants.Steps
	if now := t.e.Now() / 1000; now != c.second {
		if now == c.second+1 && c.steps >= t.limits.Loop().Answers*9/10 {
			c.full++
		} else {
			c.full = 0
		}
		c.second, c.steps = now, 0
		if limit > 0 && c.full >= 60 {
			c.broken("busy", t.Name, "the strategy has used up its turns in each second of the last minute: does it set timers for now?")
		}
	}
	c.steps++
	if limit > 0 && c.steps > limit {
		c.broken("busy", t.Name, "more than %d steps of the strategy in a second", limit)
	}
}

func (c *invariants) measure(t *talon, m loop.MetricChange) {
	if m.What != loop.MeasuredState || !m.State.Barred || t.e.w.Scenario.Invariants.BarredOK {
		return
	}
	if r := c.o.remotes[m.Relay]; r != nil && r.Honest {
		c.broken("barred", r.Name, "an honest relay is barred: %s", m.State.Reason)
	}
}

// asked counts a request in the quiet time.
func (c *invariants) asked(l *line) {
	if c.o.e.Now() >= c.quietAt {
		l.r.counts.quiet.add(c.o.e.Now() - c.quietAt)
	}
}

// halfHours counts requests in each half hour. A longer time would add up what every return of a
// relay costs.
type halfHours struct {
	current int64 // the number of the half hour that count belongs to
	count   int64
	peak    int64 // most requests in one of them
}

// add counts a request at a time in milliseconds. Times do not decrease.
func (h *halfHours) add(at int64) {
	if n := at / (30 * 60_000); n != h.current {
		h.current, h.count = n, 0
	}
	h.count++
	h.peak = max(h.peak, h.count)
}

// command keeps which values are asked for.
func (c *invariants) command(l *line, cmd session.Command) {
	switch cmd := cmd.(type) {
	case *session.Subscribe:
		sub := &openSub{since: l.t.e.Now()}
		if len(l.t.e.w.Relays) <= maxOverlapRelays {
			for i := range cmd.Filters {
				for _, tag := range cmd.Filters[i].Tags {
					for _, v := range tag.Values {
						sub.values = append(sub.values, string(tag.Name)+" "+v)
					}
				}
			}
		}
		l.open[cmd.ID], l.apart = sub, false
		if n := len(l.open); n > l.t.limits.Subscriptions {
			c.broken("limits", l.r.Name, "%d subscriptions at once, of %d", n, l.t.limits.Subscriptions)
		}
	case session.Unsubscribe:
		delete(l.open, cmd.ID)
	}
}

// maxOverlapRelays bounds the relays of a world whose subscriptions are compared for equal values.
// Beyond it, the comparison costs more than the run.
const maxOverlapRelays = 50

func (c *invariants) report(l *line, r session.Report) {
	if r, ok := r.(*session.Closed); ok {
		delete(l.open, r.Input.ID)
	}
}

// emptySet ends a NEG-OPEN that offers no event.
const emptySet = `"6100000200"]`

// effect checks that a comparison offers what is here. It knows the events that the first
// comparison of a connection offers. It passes over connections on which a comparison offered
// only what the relay is believed to hold.
func (c *invariants) effect(l *line, e session.Effect) {
	switch e := e.(type) {
	case session.Build:
		if l.believed = l.believed || e.Within != nil; l.offered == nil && !l.believed {
			l.offered = l.t.store().Query(&e.Filter)
		}
	case session.Send:
		if l.believed || !bytes.HasPrefix(e.Text, []byte(`["NEG-OPEN"`)) || !bytes.HasSuffix(e.Text, []byte(emptySet)) {
			return
		}
		var parts []json.RawMessage
		if json.Unmarshal(e.Text, &parts) != nil || len(parts) < 3 {
			return
		}
		f, err := wire.ParseFilter(parts[2], &wire.DefaultLimits)
		if err != nil {
			return
		}
		for _, x := range l.offered {
			if f.Matches(x) && l.t.store().Get(x.ID) != nil {
				c.broken("offered", l.r.Name, "a comparison offers the relay nothing, and event %s was here before", x.ID)
				return
			}
		}
	}
}

// check checks what takes time.
func (c *invariants) check() {
	e := c.o.e
	c.within()
	c.overlap()
	c.unsubscribed()
	c.o.git.observe()
	if e.Now()+checkEvery <= e.end {
		e.After(checkEvery, c.check)
	}
}

// within checks that what is wanted and can be had is here in time.
func (c *invariants) within() {
	e := c.o.e
	limit := e.w.Scenario.Limit().Milliseconds()
	if limit == 0 {
		return
	}
	for t, missing := range c.o.missing {
		for _, number := range slices.Sorted(maps.Keys(missing)) {
			if ev := e.w.Events[number]; e.Now()-missing[number] > limit && e.talons[t].up && c.parentIsHere(t, ev) && e.reachableFor(ev, limit, false) {
				c.broken("late", e.talons[t].Name, "event %s of kind %d is not here, and was to be had for %v at %s", ev.ID, ev.Kind, e.w.Scenario.Limit(), strings.Join(e.holders(ev), " "))
				return
			}
		}
	}
}

// parentIsHere reports whether what an event belongs to is here, its thread or its
// repository: otherwise that is what is missing, and it may be out of reach since its
// repository lists other relays.
func (c *invariants) parentIsHere(talon int, ev *world.Event) bool {
	switch {
	case ev.Thread != nil:
		return c.o.state[talon][ev.Thread.Number]&isHere != 0
	case ev.Kind == grasp.KindAnnouncement:
		return true
	}
	return c.o.e.talons[talon].named[ev.Repo.Address]
}

// reachableFor reports whether a relay that has an event, and that its repository lists,
// could be reached for so long, in total or at a stretch until now, and a git server that
// has its data.
func (e *engine) reachableFor(ev *world.Event, limit int64, stretch bool) bool {
	if !e.dataFor(ev, 0, limit) {
		return false
	}
	for _, copy := range ev.Copies {
		if _, ok := e.w.IsTalon(copy.Place); ok {
			continue
		}
		r := e.w.Relays[copy.Place]
		from := max(0, copy.At)
		if stretch {
			from = max(from, r.UpSince(e.Now()))
		}
		if r.Honest && ev.Repo.Lists(r.Number, e.Now()) && r.UpFor(from, e.Now()) >= limit && e.remotes[copy.Place].relay.Store().Get(ev.ID) != nil {
			return true
		}
	}
	return false
}

// holders names the relays that have an event.
func (e *engine) holders(ev *world.Event) (names []string) {
	for _, copy := range ev.Copies {
		if r := e.remotes[copy.Place]; r != nil && r.relay != nil && r.relay.Store().Get(ev.ID) != nil {
			names = append(names, r.Name)
		}
	}
	return names
}

// overlap checks that no value is asked for twice on a relay for long.
func (c *invariants) overlap() {
	e := c.o.e
	limit := e.w.Scenario.Invariants.Overlap.Milliseconds()
	if limit == 0 || len(e.w.Relays) > maxOverlapRelays {
		return
	}
	for _, t := range e.talons {
		for _, id := range sortedKeys(t.lines) {
			l := t.lines[id]
			if l.apart {
				continue
			}
			seen := map[string]string{}
			l.apart = true
			for _, name := range sortedKeys(l.open) {
				sub := l.open[name]
				if e.Now()-sub.since < limit {
					l.apart = false
					continue
				}
				for _, v := range sub.values {
					if other, ok := seen[v]; ok && other != name {
						c.broken("twice", l.r.Name, "the subscriptions %q and %q both ask for %.80s since %v", other, name, v, e.seconds(max(sub.since, l.open[other].since)))
						return
					}
					seen[v] = name
				}
			}
		}
	}
}

// gone notes that a repository was deleted at a Talon.
func (c *invariants) gone(t *talon, address string) {
	w := c.o.e.w
	i := slices.IndexFunc(w.Repos, func(r *world.Repo) bool { return r.Address == address })
	if i < 0 || w.Scenario.Invariants.Gone == 0 || len(w.Relays) > maxOverlapRelays {
		return
	}
	c.left = append(c.left, departed{t, w.Repos[i], w.Names(w.Repos[i]), t.e.Now()})
}

// unsubscribed checks that no subscription asks for a repository that was deleted long ago.
func (c *invariants) unsubscribed() {
	e := c.o.e
	limit := e.w.Scenario.Invariants.Gone.Milliseconds()
	for _, d := range c.left {
		if e.Now()-d.at <= limit {
			continue
		}
		for _, id := range sortedKeys(d.t.lines) {
			l := d.t.lines[id]
			for _, name := range sortedKeys(l.open) {
				for _, v := range l.open[name].values {
					if _, value, _ := strings.Cut(v, " "); d.names[value] {
						c.broken("gone", l.r.Name, "the subscription %q asks for %.80s, of a repository that was deleted %v ago", name, v, e.seconds(e.Now()-d.at))
						return
					}
				}
			}
		}
	}
}

// settled is how long what is wanted may be at a relay at the end and not be here, in
// milliseconds: a throttle lets a relay that was away for long rest for an hour.
const settled = 65 * 60_000

// checkEnd checks what must hold at the end.
func (c *invariants) checkEnd() {
	e := c.o.e
	if e.end < e.w.End {
		return
	}
	s := &e.w.Scenario.Invariants
	if limit := int64(s.Quiet); limit > 0 {
		for _, r := range e.remotes {
			if peak := r.counts.quiet.peak; peak > limit {
				c.broken("quiet", r.Name, "%d requests in half an hour of the last quarter of the quiet time", peak)
				return
			}
		}
	}
	if !s.Settle {
		return
	}
	for t, missing := range c.o.missing {
		for _, number := range slices.Sorted(maps.Keys(missing)) {
			if ev := e.w.Events[number]; c.parentIsHere(t, ev) && e.reachableFor(ev, min(settled, e.w.Scenario.Quiet.Milliseconds()), true) {
				c.broken("incomplete", e.talons[t].Name, "%d wanted events are not here at the end, such as %s of kind %d", len(missing), ev.ID, ev.Kind)
				return
			}
		}
	}
}
