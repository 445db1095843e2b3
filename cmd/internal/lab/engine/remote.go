package engine

import (
	"fmt"
	"slices"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/relaymodel"
	"talon/internal/simclock"
)

// remote is a relay as the Talons see it: a foreign one, or another Talon.
type remote struct {
	*world.Relay
	e       *engine
	relay   *relaymodel.Relay
	usual   *relaymodel.Profile // as the world has it
	profile *relaymodel.Profile // as it is now
	limits  []*world.Fault      // changes of limits that it has now, in the order of their begin
	lines   map[uint64]*line    // by the relay's own number of the connection
	turn    simclock.Alarm
	away    int     // outages that it has now
	dumb    int     // faults in which nothing arrives
	slow    float64 // factor of the latency
	counts  relayCounts
}

// effects carries out what a relay does.
func (r *remote) effects(list []relaymodel.Effect) {
	for i := range list {
		l := r.lines[list[i].Conn]
		if l == nil {
			continue
		}
		if list[i].Frame == nil {
			delete(r.lines, list[i].Conn)
			l.fromRelay(nil)
			continue
		}
		l.fromRelay(list[i].Frame)
	}
	r.alarm()
}

// add has the relay take an event that somebody publishes there.
func (r *remote) add(e *host.Event) {
	was := r.relay.Store().Get(e.ID)
	fate, _ := r.usual.Fate(r.Seed, e, r.e.unix())
	r.effects(r.relay.Add(e, r.e.unix()))
	if r.e.cfg.Level == result.Model && was == nil && (fate == relaymodel.Dropped || r.relay.Store().Get(e.ID) != nil) {
		for _, l := range r.inOrder() {
			if l.model != nil {
				l.model.live(e)
			}
		}
	}
}

// alarm has the relay do in time what is due.
func (r *remote) alarm() {
	if at, ok := r.relay.Next(); ok {
		r.turn.Set(at - r.e.w.Start)
	}
}

// latency is how long something takes to it or from it now.
func (r *remote) latency() int64 { return max(1, int64(float64(r.LatencyAt(r.e.Now()))*r.slow)) }

// fault begins or ends one.
func (r *remote) fault(f *world.Fault, begins bool) {
	change := map[bool]int{true: 1, false: -1}[begins]
	switch f.What {
	case "outage":
		r.setAway(change, f.Status)
	case "half-open", "partition":
		if r.dumb += change; begins {
			for _, l := range r.inOrder() {
				l.broken = true
				if l.model != nil {
					l.model.silent()
				}
			}
		}
	case "reset":
		for _, l := range r.inOrder() {
			r.effects(r.relay.Gone(l.conn, r.e.unix()))
			delete(r.lines, l.conn)
			l.fromRelay(nil)
		}
	case "limits":
		r.changeLimits(f, begins)
	case "slow":
		if begins {
			r.slow *= f.Factor
		} else {
			r.slow /= f.Factor
		}
	}
}

// changeLimits begins or ends a change of limits. Later ones go over earlier ones.
func (r *remote) changeLimits(f *world.Fault, begins bool) {
	if begins {
		r.limits = append(r.limits, f)
	} else {
		r.limits = slices.DeleteFunc(r.limits, func(o *world.Fault) bool { return o == f })
	}
	p := r.usual
	for _, f := range r.limits {
		changed, err := p.With([]byte(f.Keys))
		if err != nil {
			panic(err) // the scenario is checked
		}
		p = changed
	}
	r.profile = p
	r.relay.SetProfile(p)
}

// setAway begins or ends an outage.
func (r *remote) setAway(change, status int) {
	r.away += change
	if r.away > 0 && change > 0 {
		r.effects(r.relay.SetAway(status, r.e.unix()))
	} else if r.away == 0 {
		r.effects(r.relay.SetAway(-1, r.e.unix()))
	}
}

// inOrder returns the lines in the order in which they were made.
func (r *remote) inOrder() []*line {
	list := make([]*line, 0, len(r.lines))
	for _, number := range sortedKeys(r.lines) {
		list = append(list, r.lines[number])
	}
	return list
}

func (r *remote) String() string { return fmt.Sprintf("%s (%s)", r.Name, r.Class) }

func newRemote(e *engine, r *world.Relay) *remote {
	m := &remote{Relay: r, e: e, usual: r.Profile, profile: r.Profile, relay: relaymodel.New(r.Profile, r.Seed, e.unix()), lines: map[uint64]*line{}, slow: 1}
	m.turn = e.NewAlarm(func() { m.effects(m.relay.Turn(e.unix())) })
	m.alarm()
	return m
}
