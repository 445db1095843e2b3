package author

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin/guest"
	"talon/host/plugin/sets"
	"talon/host/plugin/state"
	"talon/sdk/abi/manifest"
)

// Options is the environment of a module that runs here.
type Options struct {
	Store *memfacts.Facts // what is stored; nil: nothing
	Log   *slog.Logger
	Fresh bool // compile it, whatever was kept

	// Service is the relay's address in a module's configuration; nil: that of vectors
	// without one.
	Service *manifest.VectorService
}

func (o *Options) service() host.Service {
	return host.Service((&manifest.Vector{Service: o.Service}).At())
}

func (o *Options) setDefaults() { o.Store = cmp.Or(o.Store, new(memfacts.Facts)) }

// Runner is a module that runs as it does in a relay. It is not for several
// goroutines.
type Runner struct {
	source  *Source
	store   *memfacts.Facts
	module  *guest.Module
	reducer *guest.Reducer // of another world than that of policies; nil: it was not asked yet
	memory  *state.Memory
	sets    *questionSets
	cache   *cache
}

// Answer is a module's answer.
type Answer struct {
	host.Ruling
	Fuel int64

	// Err says that there is no ruling: the module failed, or the host could not
	// answer it.
	Err error
}

// Run starts a module with its side-car.
func (s *Source) Run(ctx context.Context, o Options) (*Runner, error) {
	if !s.decides() {
		return nil, s.errNoPolicy()
	}
	o.setDefaults()
	operators, err := s.openSets(ctx, &o)
	if err != nil {
		return nil, err
	}
	return s.load(ctx, o, operators, s.Sidecar.Config, o.service())
}

// openSets reads the sets that the side-car names; nil if it names none.
func (s *Source) openSets(ctx context.Context, o *Options) (guest.Sets, error) {
	if len(s.Sidecar.Sets) == 0 {
		return nil, nil
	}
	return sets.Open(ctx, s.dir(), s.Sidecar.Sets, o.Store, sets.Options{})
}

// manifestService returns the relay's address in a module's configuration.
var manifestService = host.Service((&manifest.Vector{}).At())

// load starts the module with a memory of its own. After an error nothing is left.
func (s *Source) load(ctx context.Context, o Options, operators guest.Sets, config map[string]any, at host.Service) (r *Runner, err error) {
	r = &Runner{source: s, store: o.Store, sets: &questionSets{operators: operators}}
	if r.memory, err = state.Open(ctx, nil, state.Options{}); err != nil {
		return nil, err
	}
	if r.cache, err = openCache(); err != nil {
		return nil, err
	}
	options := r.guestOptions(o, config, at)
	err = r.cache.hold(func() (err error) {
		r.module, err = guest.Load(ctx, r.source.Wasm, options)
		return err
	})
	if err != nil {
		return nil, cmpErr(err, r.cache.close())
	}
	return r, nil
}

func (r *Runner) guestOptions(o Options, config map[string]any, at host.Service) guest.Options {
	file := r.source.Sidecar
	b := file.Budgets
	plugin := r.memory.Of(r.source.Manifest.Name)
	if b.State > 0 {
		plugin.SetQuota(b.State)
	}
	options := guest.Options{
		Name:      r.source.Manifest.Name,
		Grants:    file.Grants,
		Config:    config,
		Budgets:   guest.BudgetsOf(&b),
		State:     plugin,
		Sets:      r.sets,
		Service:   at,
		CacheDir:  r.cache.dir,
		Instances: 1,
		Log:       o.Log,
	}
	if o.Fresh {
		options.CacheDir = ""
	}
	return options
}

// Ask asks the module for a verdict.
func (r *Runner) Ask(ctx context.Context, q *Case) (a Answer) {
	if !q.Vector.Policy() {
		a.Err = fmt.Errorf("%s asks %s, which gives no verdict: it is for talon plugin test", q.Where, q.function())
		return a
	}
	f, err := r.function(q)
	if err != nil && q.Recorded != nil {
		return a // another plugin was asked, and the host would not ask this one
	}
	if err != nil {
		a.Err = err
		return a
	}
	// The host does not ask where the module says that it would pass.
	if !r.module.Calls(f) {
		return a
	}
	request, err := q.Vector.Request()
	if err != nil {
		a.Err = fmt.Errorf("%s: %w", q.Where, err)
		return a
	}
	r.sets.question = q.Vector.Sets
	return r.rule(ctx, f, request, factsOf(r.store, &q.Vector), q.Vector.Now, cmp.Or(q.Vector.Source.Origin, "client"))
}

// reduce asks a throttle. It is one instance that is asked all that comes.
func (r *Runner) reduce(ctx context.Context, q *Case) (answer []byte, fuel int64, err error) {
	f, err := r.function(q)
	if err != nil {
		return nil, 0, err
	}
	request, err := q.Vector.Request()
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", q.Where, err)
	}
	if r.reducer == nil {
		if r.reducer, err = r.module.NewReducer(ctx); err != nil {
			return nil, 0, err
		}
	}
	r.sets.question = q.Vector.Sets
	if answer, fuel, err = r.reducer.Call(ctx, f, request, q.Vector.Now); err != nil {
		r.reducer = nil // it has ended: the next is asked of a new one
	}
	return answer, fuel, err
}

// function is what a question asks, if the module has it.
func (r *Runner) function(q *Case) (guest.Func, error) {
	f := q.function()
	if !slices.Contains(r.source.Manifest.Functions, f.String()) {
		return f, fmt.Errorf("%s asks %s, which the module does not have: functions of its manifest are %q", q.Where, f, r.source.Manifest.Functions)
	}
	return f, nil
}

// rule asks about an encoded request.
func (r *Runner) rule(ctx context.Context, f guest.Func, request []byte, store *memfacts.Facts, now int64, source string) (a Answer) {
	a.Ruling, a.Fuel, a.Err = r.module.Rule(ctx, f, request, store, now, source)
	return a
}

// Run removes expired entries from the module's memory until ctx is done.
func (r *Runner) Run(ctx context.Context) error { return r.memory.Run(ctx) }

// Close ends the module.
func (r *Runner) Close() error {
	if r.reducer != nil {
		r.reducer.Close()
	}
	return cmpErr(r.module.Close(context.Background()), r.cache.close())
}

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// SelfTest runs the checks of a relay before it activates a module: the vectors of its
// manifest, and the relay's own.
func (s *Source) SelfTest(ctx context.Context) error {
	return withCache(func(dir string) error {
		return guest.SelfTest(ctx, s.Wasm, guest.Options{
			Name: s.Manifest.Name, Grants: s.Sidecar.Grants, Config: s.Sidecar.Config, Service: manifestService, CacheDir: dir,
		})
	})
}

// questionSets are those of a question, and else the operator's.
type questionSets struct {
	question  guest.VectorSets
	operators guest.Sets
}

func (s *questionSets) Contains(name, member []byte) (yes, known bool) {
	if yes, known = s.question.Contains(name, member); known || s.operators == nil {
		return yes, known
	}
	return s.operators.Contains(name, member)
}
