// Package engine runs a strategy and a throttle in a world: the loop and the sessions of
// production, the modules' own bytes, and relays that are played, in virtual time and one
// goroutine.
//
// Invariants:
//
//  1. Everything that takes time is an event in one queue. Events of the same time happen
//     in the order in which they were queued. There is no clock, no goroutine and no
//     randomness: the world has drawn it all.
//  2. A module that fails is a finding of the run. The run itself fails for no module, relay
//     or scenario.
//  3. Equal worlds, modules and levels make equal results, to the byte.
package engine

import (
	"context"
	"slices"
	"time"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host/plugin/guest"
	"talon/host/relaymodel"
	"talon/host/relaysync/session"
	"talon/internal/simclock"
)

// Config describes one run.
type Config struct {
	World    *world.World
	Level    result.Level
	Strategy Module
	Throttle Module // nil: the host's own backoff

	Only   *result.Prefix // what is left of the world; nil: all
	Trace  string         // name of a relay whose line to the first Talon is kept; empty: none
	Relays bool           // rows for relays, with their load over time
	Watch  func(Progress) // called now and then; nil: nobody looks

	// Record gets each input of the strategy of a Talon with its answer; nil: nobody does. Both are
	// valid until it returns.
	Record func(talon int, request, answer []byte)

	plant func(session.Effect) session.Effect // changes what sessions do, in tests; nil: nothing is changed
}

// Progress is the progress of a run.
type Progress struct {
	Now, End     time.Duration
	Wanted, Here int // events
	Connections  int
	Stored       bool   // an event came to be here
	Line         string // what went wrong; empty: nothing
}

// engine is a run.
type engine struct {
	*simclock.Clock // milliseconds since the begin

	cfg     Config
	ctx     context.Context
	w       *world.World
	end     int64
	remotes []*remote // by place
	talons  []*talon
	gits    []*gitServer          // foreign ones
	git     map[string]*gitServer // by domain, Talons among them
	watch   observer
	stopped *result.End // why it ends before its time
}

// Run simulates a world. It returns an error if a module cannot be started. When ctx
// ends, the result is that of the part until then.
func Run(ctx context.Context, cfg Config) (*result.Run, error) {
	e := &engine{cfg: cfg, ctx: ctx, w: cfg.World, end: cfg.World.End, Clock: simclock.New(0)}
	if cfg.Only != nil {
		e.end = min(e.end, cfg.Only.Until.Duration().Milliseconds())
	}
	e.watch.begin(e)
	for _, r := range e.w.Relays {
		e.remotes = append(e.remotes, newRemote(e, r))
	}
	profile := e.w.Scenario.TalonProfile()
	for _, t := range e.w.Talons {
		e.remotes = append(e.remotes, newRemote(e, &world.Relay{
			Number: len(e.remotes), Name: t.Name, Class: "talon", URL: t.URL, Profile: profile, Seed: relaymodel.Mix(e.w.Seed ^ uint64(t.Number)),
			Honest: true, Latency: e.w.Scenario.Talon.LatencyMS,
		}))
	}
	for _, r := range e.remotes {
		e.watch.remotes[r.URL] = r
	}
	e.git = map[string]*gitServer{}
	for _, g := range e.w.Git {
		e.gits = append(e.gits, newGitServer(e, g, nil))
		e.git[g.Domain] = e.gits[g.Number]
	}
	for _, t := range e.w.Talons {
		e.talons = append(e.talons, newTalon(e, t))
		e.git[t.Domain] = newTalonServer(e, e.talons[t.Number])
	}
	defer func() {
		for _, t := range e.talons {
			t.close()
		}
	}()
	e.plan()
	for _, t := range e.talons {
		if err := t.start(true); err != nil {
			return nil, err
		}
	}
	e.run()
	return e.watch.result(), nil
}

// plan queues what the world has drawn.
func (e *engine) plan() {
	for _, ev := range e.w.Events {
		if !e.keeps(ev.Number, false) {
			continue
		}
		for _, c := range ev.Copies {
			if c.At <= 0 {
				e.deliver(ev, c.Place)
			}
		}
	}
	for _, ev := range e.w.Events {
		if !e.keeps(ev.Number, false) {
			continue
		}
		e.watch.published(ev)
		for _, c := range ev.Copies {
			if c.At > 0 {
				e.At(c.At, func() { e.deliver(ev, c.Place) })
			}
		}
		if ev.Data != nil && ev.Data.Direct {
			e.At(ev.Data.At, func() {
				for _, t := range ev.Repo.Talons {
					e.talons[t].pushed(ev)
				}
			})
		}
	}
	for _, f := range e.w.Faults {
		if e.keeps(f.Number, true) {
			e.planFault(f)
		}
	}
}

// keeps reports whether an event or a fault happens in this run.
func (e *engine) keeps(number uint32, fault bool) bool {
	only := e.cfg.Only
	if only == nil {
		return true
	}
	list := only.Events
	if fault {
		list = only.Faults
	}
	_, ok := slices.BinarySearch(list, number)
	return ok
}

// deliver has an event reach a place.
func (e *engine) deliver(ev *world.Event, at world.Place) {
	if t, ok := e.w.IsTalon(at); ok {
		e.talons[t].fromClient(ev)
		return
	}
	r := e.remotes[at]
	r.add(ev.Event)
	e.watch.arrivedAt(ev, r)
}

// unix is the time in unix milliseconds.
func (e *engine) unix() int64 { return e.w.Start + e.Now() }

// run lets time pass until the end.
func (e *engine) run() {
	const look = 4096 // happenings between two looks at ctx
	const maxStill = 5_000_000
	still := 0
	for n := 0; e.Next() <= e.end; n++ {
		if n%look == 0 && e.ctx.Err() != nil {
			e.stop(result.CutShort, "it was interrupted")
		}
		if e.stopped != nil {
			return
		}
		if e.Next() > e.Now() {
			still = 0
		} else if still++; still > maxStill {
			e.watch.check.broken("busy", "", "more than %d things happen without time passing", maxStill)
		}
		e.Step()
	}
	e.RunUntil(e.end)
}

// stop ends the run.
func (e *engine) stop(how result.How, reason string) {
	if e.stopped == nil {
		e.stopped = &result.End{How: how, At: e.seconds(e.Now()), Reason: reason}
	}
}

func (e *engine) seconds(ms int64) result.Seconds {
	return result.Seconds(time.Duration(ms) * time.Millisecond)
}

// planFault queues what a fault does.
func (e *engine) planFault(f *world.Fault) {
	for _, part := range f.Parts() {
		e.At(part.From, func() { e.fault(f, true) })
		if part.To > part.From && part.To < e.w.End {
			e.At(part.To, func() { e.fault(f, false) })
		}
	}
	e.At(f.At, func() { e.watch.faultBegins(f) })
	if f.Until < e.w.End {
		e.At(f.Until, func() { e.watch.faultEnds(f) })
	}
}

// fault begins or ends a fault.
func (e *engine) fault(f *world.Fault, begins bool) {
	for _, i := range f.Relays {
		e.remotes[i].fault(f, begins)
	}
	for _, i := range f.Talons {
		e.talons[i].fault(f, begins)
	}
	for _, i := range f.Git {
		e.gits[i].fault(f, begins)
	}
}

const never = simclock.Never

// Module is a strategy or a throttle under test. Concurrent runs share it.
type Module interface {
	About() result.Module

	// New makes an instance that has seen nothing.
	New(ctx context.Context) (Instance, error)
}

// Instance is one instance of a module. One goroutine uses it.
type Instance interface {
	// Call calls a function; the answer is valid until the next call. After an error the
	// instance is closed. now is in unix seconds.
	Call(ctx context.Context, f guest.Func, request []byte, now int64) (answer []byte, fuel int64, err error)

	Memory() int64 // bytes
	Close()
}

// usage is what a module has used in a run.
type usage struct {
	steps, fuel, memory int64
	failures            int
}

// call asks an instance and counts.
func (u *usage) call(ctx context.Context, i Instance, f guest.Func, request []byte, now int64) ([]byte, error) {
	answer, fuel, err := i.Call(ctx, f, request, now)
	u.steps++
	u.fuel += fuel
	u.memory = max(u.memory, i.Memory())
	if err != nil {
		u.failures++
	}
	return answer, err
}
