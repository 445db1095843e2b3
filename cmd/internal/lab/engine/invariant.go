package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relaysync/loop"
	"talon/host/relaysync/session"
)

// invariants is what must hold in each step. What does not ends the run.
type invariants struct {
	o       *observer
	second  int64 // in which steps are counted
	steps   int
	quietAt int64
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
	o.e.queue.at(checkEvery, c.look)
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
	if t.e.now/1000 == c.second {
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

// step counts steps that no event of ours explains.
func (c *invariants) step(t *talon) {
	if now := t.e.now / 1000; now != c.second {
		c.second, c.steps = now, 0
	}
	c.steps++
	if most := t.e.w.Scenario.Invariants.Steps; most > 0 && c.steps > most {
		c.broken("busy", t.Name, "more than %d steps of the strategy in a second", most)
	}
}

func (c *invariants) measure(t *talon, m loop.Measure) {
	if m.What != loop.MeasuredState || !m.State.Barred || t.e.w.Scenario.Invariants.BarredOK {
		return
	}
	if r := c.o.remotes[m.Relay]; r != nil && r.Honest {
		c.broken("barred", r.Name, "an honest relay is barred: %s", m.State.Reason)
	}
}

// asked counts a request in the quiet time.
func (c *invariants) asked(l *line) {
	if c.o.e.now >= c.quietAt {
		l.r.counts.quiet++
	}
}

// command keeps which values are asked for.
func (c *invariants) command(l *line, cmd session.Command) {
	switch cmd := cmd.(type) {
	case *session.Subscribe:
		sub := &openSub{since: l.t.e.now}
		if len(l.t.e.w.Relays) <= maxOverlapRelays {
			for i := range cmd.Filters {
				for _, tag := range cmd.Filters[i].Tags {
					for _, v := range tag.Values {
						sub.values = append(sub.values, string(tag.Name)+" "+v)
					}
				}
			}
		}
		l.open[cmd.ID] = sub
		if n := len(l.open); n > l.t.limits.Subscriptions {
			c.broken("limits", l.r.Name, "%d subscriptions at once, of %d", n, l.t.limits.Subscriptions)
		}
	case session.Unsubscribe:
		delete(l.open, cmd.ID)
	}
}

// maxOverlapRelays is up to how many relays a world has the values of subscriptions
// compared: beyond that it costs more than the run.
const maxOverlapRelays = 50

func (c *invariants) report(l *line, r session.Report) {
	if r, ok := r.(*session.Closed); ok {
		delete(l.open, r.Input.ID)
	}
}

// look checks what takes time.
func (c *invariants) look() {
	e := c.o.e
	c.within()
	c.overlap()
	if e.now+checkEvery <= e.end {
		e.queue.at(e.now+checkEvery, c.look)
	}
}

// within checks that what is wanted and can be had is here in time.
func (c *invariants) within() {
	e := c.o.e
	most := e.w.Scenario.Invariants.Within.Milliseconds()
	if most == 0 {
		return
	}
	for t, missing := range c.o.missing {
		for _, number := range slices.Sorted(maps.Keys(missing)) {
			if ev := e.w.Events[number]; e.now-missing[number] > most && e.talons[t].up && c.threadIsHere(t, ev) && e.reachableFor(ev, most) {
				c.broken("late", e.talons[t].Name, "event %s of kind %d is not here, and was to be had for %v at %s", ev.ID, ev.Kind, e.w.Scenario.Invariants.Within, e.holders(ev))
				return
			}
		}
	}
}

// threadIsHere reports whether what an event is in is here: otherwise that is what is
// missing, and it may be out of reach since its repository lists other relays.
func (c *invariants) threadIsHere(talon int, ev *world.Event) bool {
	return ev.Thread == nil || c.o.state[talon][ev.Thread.Number]&isHere != 0
}

// reachableFor reports whether a relay that has an event, and that its repository lists,
// could be reached for so long.
func (e *engine) reachableFor(ev *world.Event, most int64) bool {
	for _, copy := range ev.Copies {
		if _, ok := e.w.IsTalon(copy.Place); ok {
			continue
		}
		r := e.w.Relays[copy.Place]
		if r.Honest && ev.Repo.Lists(r.Number, e.now) && r.UpFor(max(0, copy.At), e.now) >= most && e.remotes[copy.Place].relay.Store().Get(ev.ID) != nil {
			return true
		}
	}
	return false
}

// holders names the relays that have an event.
func (e *engine) holders(ev *world.Event) string {
	var names []string
	for _, copy := range ev.Copies {
		if e.remotes[copy.Place].relay.Store().Get(ev.ID) != nil {
			names = append(names, e.remotes[copy.Place].Name)
		}
	}
	return strings.Join(names, " ")
}

// overlap checks that no value is asked for twice on a relay for long.
func (c *invariants) overlap() {
	e := c.o.e
	most := e.w.Scenario.Invariants.Overlap.Milliseconds()
	if most == 0 || len(e.w.Relays) > maxOverlapRelays {
		return
	}
	for _, t := range e.talons {
		for _, id := range sortedKeys(t.lines) {
			l := t.lines[id]
			seen := map[string]string{}
			for _, name := range sortedKeys(l.open) {
				sub := l.open[name]
				if e.now-sub.since < most {
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

// end checks what must hold at the end.
func (c *invariants) end() {
	e := c.o.e
	if e.end < e.w.End {
		return
	}
	s := &e.w.Scenario.Invariants
	if most := int64(s.Quiet); most > 0 {
		for _, r := range e.remotes {
			if r.counts.quiet > most {
				c.broken("quiet", r.Name, "%d requests in the last quarter of the quiet time", r.counts.quiet)
				return
			}
		}
	}
	if !s.Settle {
		return
	}
	for t, missing := range c.o.missing {
		for _, number := range slices.Sorted(maps.Keys(missing)) {
			if ev := e.w.Events[number]; c.threadIsHere(t, ev) && e.reachableFor(ev, min(checkEvery, e.w.Scenario.Quiet.Milliseconds())) {
				c.broken("incomplete", e.talons[t].Name, "%d wanted events are not here at the end, such as %s of kind %d", len(missing), ev.ID, ev.Kind)
				return
			}
		}
	}
}
