package guest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"talon/host"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// Module is a loaded, configured module. It may be used by many goroutines
// concurrently.
type Module struct {
	name      string
	manifest  *manifest.Manifest
	imports   []string // capabilities that it imports
	functions []Func   // that the host calls
	config    []byte   // the encoded Config

	testConfig []byte // the same for a self-test

	limits      Limits
	budgets     Budgets
	maxFuelUsed int64 // of one call for a verdict

	state  State
	sets   Sets
	held   host.HeldFacts
	events *EventCache
	git    Git

	about host.Description

	candidates *Candidates // for the function audience

	kept    string // folder with the code; empty: nothing is kept
	engines engines
	bound   context.Context // of instances: what ends them by force
	pool    *pool
	sparing atomic.Bool // an instance is made in the place of one that failed

	asked bool // the host, while it was configured

	instances  atomic.Int64
	memoryUsed atomic.Int64

	metrics    *moduleMetrics
	valueNames names // of its own metrics
	logRate    logRate
	log        *slog.Logger
	elapsed    func() time.Duration // of the clock, since the program began
}

// Load makes a module of the bytes of its file: everything that can refuse it, up to a first
// configured instance, but for [SelfTest]. An error is one sentence that says
// what is wrong with the module, or with what the operator chose for it.
func Load(ctx context.Context, wasm []byte, o Options) (*Module, error) {
	o.setDefaults(wasm)
	if err := CheckExecutable(); err != nil && !o.Interpret {
		return nil, err
	}
	m, err := prepare(wasm, &o)
	if err != nil {
		return nil, err
	}
	if m.recallIdle(&o) {
		return m, nil
	}
	kind := compiler
	if o.Interpret {
		kind, o.CacheDir = interpreter, ""
	}
	if err := m.start(ctx, wasm, kind, o); err != nil {
		m.release(context.WithoutCancel(ctx))
		return nil, err
	}
	m.dropIdle()
	if len(m.functions) == 0 {
		m.keepIdle()
		// Nobody calls it: what it is configured to is all that is needed.
		m.pool.drain(ctx)
		if err := m.release(context.WithoutCancel(ctx)); err != nil {
			return nil, err
		}
		return m, nil
	}
	m.unloadIdle(kind, o)
	return m, nil
}

func encodeConfig(settings []abi.Setting, s host.Service) []byte {
	return abi.AppendConfig(nil, &abi.Config{Settings: settings, Service: abi.Service(s)})
}

// prepare does what needs no runtime: it reads the manifest, and checks it and the
// operator's choices.
func prepare(wasm []byte, o *Options) (*Module, error) {
	var man *manifest.Manifest
	if o.CacheDir != "" {
		man = keptManifest(codeDir(o.CacheDir, o.SHA256))
	}
	if man == nil {
		var err error
		if man, err = ReadManifest(wasm); err != nil {
			return nil, err
		}
	}
	functions, mostFuel := called(man), o.Limits.Fuel
	reduces := slices.ContainsFunc(functions, func(f Func) bool { return !f.policy() })
	if reduces {
		o.Limits = o.Limits.forReducers()
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := auditManifest(man, o); err != nil {
		return nil, err
	}
	settings, err := man.Resolve(o.Config)
	if err != nil {
		return nil, err
	}
	candidates, err := newCandidates(man, settings)
	if err != nil {
		return nil, err
	}
	budgets := o.resolve(&man.Budgets, reduces)
	m := &Module{
		name: o.Name, manifest: man, functions: functions, config: encodeConfig(settings, o.Service),
		limits: o.Limits, budgets: budgets, maxFuelUsed: mostFuel,
		testConfig: encodeConfig(settings, testService),
		state:      o.State, sets: o.Sets, held: o.Held, git: o.Git, events: o.Events,
		candidates: candidates,
		bound:      context.Background(), metrics: o.Metrics.of(o.Name), valueNames: names{max: maxValues},
		logRate: logRate{max: budgets.LogRate, clock: o.Clock},
		log:     o.Log, elapsed: o.elapsed,
	}
	// One that cannot wait needs no more instances than can run at the same time.
	limit := o.Instances
	if slices.ContainsFunc(man.Capabilities, waits) {
		limit += o.Waits
	}
	m.pool = newPool(o.Instances, limit, m.discard, m.elapsed)
	for _, f := range m.functions {
		m.metrics.add(f)
	}
	return m, nil
}

// start compiles the module, audits it and creates a first instance. If it fails, the
// caller frees the rest with release.
func (m *Module) start(ctx context.Context, wasm []byte, kind wazero.RuntimeConfig, o Options) error {
	e, err := m.openEngine(ctx, func(context.Context) ([]byte, error) { return wasm, nil }, kind, &o)
	if err != nil {
		return err
	}
	m.engines.engine, m.kept, m.imports = e, e.kept, e.imports
	m.pool.reserve()
	inst, err := m.newInstance(ctx)
	if err != nil {
		m.pool.giveUp()
		return err
	}
	m.pool.put(inst)
	return nil
}

// atOnce runs f without reporting that the caller waits.
func atOnce(f func()) { f() }

// Manifest returns the module's manifest.
func (m *Module) Manifest() *manifest.Manifest { return m.manifest }

// About returns the module's description of the relay, as it is configured.
func (m *Module) About() host.Description { return m.about }

// Candidates returns the events about which the function audience is asked, nil if it is never
// called.
func (m *Module) Candidates() *Candidates {
	if !m.Calls(Audience) {
		return nil
	}
	return m.candidates
}

// Calls reports whether the host calls the function in this module.
func (m *Module) Calls(f Func) bool {
	for _, called := range m.functions { // each decision asks; slices.Contains is not inlined
		if called == f {
			return true
		}
	}
	return false
}

// Functions returns the names of the functions that the host calls.
func (m *Module) Functions() []string {
	list := make([]string, len(m.functions))
	for i, f := range m.functions {
		list[i] = f.String()
	}
	return list
}

// Imports returns the capabilities in the import section: all that the module can
// do.
func (m *Module) Imports() []string { return slices.Clone(m.imports) }

// Fuel returns the budget of one call, without what is added for each byte of its
// request.
func (m *Module) Fuel() int64 { return m.budgets.Fuel }

// budget is the fuel of one call of a function. A module that also decides over
// time gets no more for a verdict than others.
func (m *Module) budget(f Func) int64 {
	if f.policy() {
		return min(m.budgets.Fuel, m.maxFuelUsed)
	}
	return m.budgets.Fuel
}

// MemoryLimit returns the maximum bytes of one instance.
func (m *Module) MemoryLimit() int64 { return m.budgets.Memory }

// Instances returns the number of instances, those of reducers included.
func (m *Module) Instances() int { return int(m.instances.Load()) }

// MemoryUsed returns the memory of all instances, in bytes.
func (m *Module) MemoryUsed() int64 { return m.memoryUsed.Load() }

// Code returns the folder that keeps the compiled code, empty if none does.
func (m *Module) Code() string { return m.kept }

func (m *Module) newInstance(ctx context.Context) (*instance, error) {
	inst, err := newInstance(ctx, m)
	if err != nil {
		return nil, err
	}
	m.instances.Add(1)
	m.metrics.instances.Inc()
	inst.report(inst.memory.Size())
	return inst, nil
}

// report sets the metric of the instance's memory.
func (inst *instance) report(size uint32) {
	if size != inst.pages {
		more := int64(size) - int64(inst.pages)
		inst.module.memoryUsed.Add(more)
		inst.module.metrics.memory.Add(float64(more))
		inst.pages = size
	}
}

// discard closes an instance.
func (m *Module) discard(inst *instance) {
	m.instances.Add(-1)
	m.metrics.instances.Dec()
	inst.report(0)
	inst.close()
}

// Close closes instances, code and runtime. Nobody may call the module any more;
// calls under way are waited for until ctx is done.
func (m *Module) Close(ctx context.Context) error {
	quiet := m.pool.drain(ctx)
	err := m.release(context.WithoutCancel(ctx))
	if !quiet {
		err = cmpErr(err, fmt.Errorf("close plugin %s: %w", m.name, ctx.Err()))
	}
	return err
}

// release closes everything, in use or not.
func (m *Module) release(ctx context.Context) error {
	err := m.engines.close(ctx)
	m.metrics.instances.Sub(float64(m.instances.Swap(0)))
	m.metrics.memory.Sub(float64(m.memoryUsed.Swap(0)))
	return err
}
