// Package runner makes many runs of the lab: every variant of modules and scenario with
// every seed, several concurrently. The order of results does not depend on their number.
package runner

import (
	"context"
	"sync"
	"time"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
)

// Plan is the set of runs to make.
type Plan struct {
	Variants []Variant
	First    uint64 // seed
	Seeds    int
	Jobs     int          // concurrent runs
	Level    result.Level // empty: as the scenario says
	Trace    string
	Relays   bool
	Shrink   int // runs that are spent to find the shortest prefix that breaks an invariant

	Write    func(*result.Run) error // of each run, in order
	Progress func(done, all int, left time.Duration)
}

// Run makes all runs. When ctx ends, the runs under way are ended early and written; that
// is no error.
func Run(ctx context.Context, p *Plan) error {
	r := &runs{plan: p, all: p.Seeds * len(p.Variants), worlds: map[worldKey]*shared{}, results: map[int]*result.Run{}, begun: time.Now()}
	r.ready.L = &r.mu
	var workers sync.WaitGroup
	for range max(1, p.Jobs) {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	return r.err
}

// runs is a plan that is carried out. Runs are numbered seed by seed, so that the variants
// of one seed share its world while that is there.
type runs struct {
	plan  *Plan
	all   int
	begun time.Time

	mu      sync.Mutex // guards the fields below
	ready   sync.Cond
	next    int
	written int
	results map[int]*result.Run
	worlds  map[worldKey]*shared
	err     error
}

// worldKey names a world: variants with other scenarios have others.
type worldKey struct {
	scenario string
	seed     uint64
}

// shared is a world that runs share.
type shared struct {
	once  sync.Once
	world *world.World
	users int
}

// ahead is how many results may wait for one that comes before them, per job.
const ahead = 16

func (r *runs) work(ctx context.Context) {
	for {
		r.mu.Lock()
		for r.next-r.written > ahead*max(1, r.plan.Jobs) && r.err == nil {
			r.ready.Wait()
		}
		n := r.next
		if n >= r.all || r.err != nil || ctx.Err() != nil {
			r.mu.Unlock()
			return
		}
		r.next++
		r.mu.Unlock()
		one, err := r.run(ctx, n)
		r.done(n, one, err)
	}
}

// run makes one run.
func (r *runs) run(ctx context.Context, n int) (*result.Run, error) {
	p := r.plan
	v := &p.Variants[n%len(p.Variants)]
	seed := p.First + uint64(n/len(p.Variants))
	key := worldKey{v.Scenario.Digest(), seed}
	w := r.take(key)
	w.once.Do(func() { w.world = world.Draw(v.Scenario, seed) })
	defer r.release(key)
	level := p.Level
	if level == "" {
		level = result.Level(v.Scenario.Level)
	}
	cfg := engine.Config{World: w.world, Level: level, Strategy: v.Strategy, Throttle: v.Throttle, Trace: p.Trace, Relays: p.Relays}
	one, err := engine.Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if one.End.How == result.BrokenInvariant && p.Shrink > 0 {
		shrink(ctx, cfg, one, p.Shrink)
	}
	one.Set = v.Set
	return one, nil
}

func (r *runs) take(key worldKey) *shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.worlds[key]
	if w == nil {
		w = new(shared)
		for i := range r.plan.Variants {
			if r.plan.Variants[i].Scenario.Digest() == key.scenario {
				w.users++
			}
		}
		r.worlds[key] = w
	}
	return w
}

// release forgets a world that all its variants have had.
func (r *runs) release(key worldKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.worlds[key]; w != nil {
		if w.users--; w.users <= 0 {
			delete(r.worlds, key)
		}
	}
}

// done takes a result, and writes those that are next.
func (r *runs) done(n int, one *result.Run, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.ready.Broadcast()
	if err != nil {
		if r.err == nil {
			r.err = err
		}
		return
	}
	r.results[n] = one
	for r.err == nil {
		one, ok := r.results[r.written]
		if !ok {
			break
		}
		delete(r.results, r.written)
		r.written++
		if err := r.plan.Write(one); err != nil {
			r.err = err
		}
	}
	if r.plan.Progress != nil {
		spent := time.Since(r.begun)
		finished := r.written + len(r.results)
		r.plan.Progress(finished, r.all, spent*time.Duration(r.all-finished)/time.Duration(max(1, finished)))
	}
}
