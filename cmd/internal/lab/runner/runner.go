// Package runner makes many runs of the lab: every variant of modules and scenario with
// every seed, several concurrently. The order of results does not depend on their number.
package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
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

// Variant is a strategy and a throttle in a scenario.
type Variant struct {
	Scenario *scenario.Scenario
	Set      []result.Setting // what was changed in the scenario
	Strategy engine.Module
	Throttle engine.Module // nil: the host's own backoff
}

// Sweep is a key and the values to try for it.
type Sweep struct {
	Key    string
	Values []string
}

// ParseSweep reads KEY=V1,V2. A comma in brackets or quotes is one of a value.
func ParseSweep(text string) (Sweep, error) {
	key, list, ok := strings.Cut(text, "=")
	if key = strings.TrimSpace(key); !ok || key == "" || list == "" {
		return Sweep{}, fmt.Errorf("%q: want KEY=VALUE, or KEY=V1,V2 to try several", text)
	}
	var values []string
	depth, quote, from := 0, byte(0), 0
	for i := range len(list) {
		switch c := list[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			values = append(values, strings.TrimSpace(list[from:i]))
			from = i + 1
		}
	}
	values = append(values, strings.TrimSpace(list[from:]))
	if slices.Contains(values, "") {
		return Sweep{}, fmt.Errorf("%q: a value is empty", text)
	}
	return Sweep{key, values}, nil
}

// maxVariants bounds what sweeps make together.
const maxVariants = 1000

// Combinations returns each way to choose a value for every sweep, the last one varying
// first.
func Combinations(sweeps []Sweep) ([][]result.Setting, error) {
	all := [][]result.Setting{nil}
	for _, s := range sweeps {
		if len(all)*len(s.Values) > maxVariants {
			return nil, fmt.Errorf("the values together make more than %d variants", maxVariants)
		}
		var next [][]result.Setting
		for _, before := range all {
			for _, v := range s.Values {
				next = append(next, append(slices.Clone(before), result.Setting{Key: s.Key, Value: v}))
			}
		}
		all = next
	}
	return all, nil
}

// Change returns a scenario with some settings replaced.
func Change(s *scenario.Scenario, set []result.Setting) (*scenario.Scenario, error) {
	var list []string
	for _, c := range set {
		list = append(list, c.Key, c.Value)
	}
	return s.With(list...)
}

// shrink looks for a shorter prefix of a run that breaks the same invariant: faults and
// events are taken away, in halves first and then in smaller parts, as long as what is left
// still shows it. It makes at most the given number of runs.
func shrink(ctx context.Context, cfg engine.Config, broken *result.Run, limit int) {
	i := slices.IndexFunc(broken.Findings, func(f result.Finding) bool { return f.Prefix != nil })
	if i < 0 {
		return
	}
	s := &shrinking{ctx: ctx, cfg: cfg, name: broken.Findings[i].Invariant, best: *broken.Findings[i].Prefix, left: limit}
	s.cfg.Trace, s.cfg.Relays, s.cfg.Watch = "", false, nil
	for {
		before := len(s.best.Events) + len(s.best.Faults)
		s.reduce(func(p *result.Prefix) *[]uint32 { return &p.Faults })
		s.reduce(func(p *result.Prefix) *[]uint32 { return &p.Events })
		if s.left <= 0 || len(s.best.Events)+len(s.best.Faults) == before {
			break
		}
	}
	broken.Findings[i].Prefix = &s.best
}

type shrinking struct {
	ctx  context.Context
	cfg  engine.Config
	name string // of the invariant
	best result.Prefix
	left int // runs
}

// reduce takes parts of a list away, smaller and smaller ones.
func (s *shrinking) reduce(of func(*result.Prefix) *[]uint32) {
	for size := (len(*of(&s.best)) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(*of(&s.best)); {
			if s.left <= 0 || s.ctx.Err() != nil {
				return
			}
			list := *of(&s.best)
			try := s.best
			*of(&try) = slices.Delete(slices.Clone(list), from, min(len(list), from+size))
			if !s.shows(try) {
				from += size
			}
		}
	}
}

// shows reports whether a prefix breaks the invariant, and keeps it if it does.
func (s *shrinking) shows(p result.Prefix) bool {
	s.left--
	cfg := s.cfg
	cfg.Only = &p
	one, err := engine.Run(s.ctx, cfg)
	if err != nil || one.End.How != result.BrokenInvariant {
		return false
	}
	i := slices.IndexFunc(one.Findings, func(f result.Finding) bool { return f.Prefix != nil && f.Invariant == s.name })
	if i < 0 {
		return false
	}
	s.best = p
	s.best.Until = min(p.Until, one.Findings[i].Prefix.Until)
	return true
}
