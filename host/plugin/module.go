package plugin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"

	"talon/host"
	"talon/host/plugin/meter"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// Module is a loaded, configured policy.
type Module struct {
	name     string
	manifest *manifest.Manifest
	limits   Limits
	fuel     int64  // of one decision
	output   int    // bytes of one verdict
	config   []byte // the encoded Config

	code     *code // nil: none is kept
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	pool     *pool
	breaker  breaker
	shaken   atomic.Bool // a failure since the last decision

	metrics   *moduleMetrics
	ruleNames ruleNames
	logRate   logRate
	log       *slog.Logger
	clock     func() time.Time
	failed    *host.Ruling // nil: fail open
}

// loader is what modules have in common.
type loader struct {
	options *Options
	metrics *metrics
	clock   func() time.Time
}

// read reads a module's file.
func (l *loader) read(name string) ([]byte, error) {
	path := filepath.Join(l.options.Dir, name+".wasm")
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, cmpErr(err, fmt.Errorf("%s is not a regular file", path))
	}
	wasm, err := io.ReadAll(io.LimitReader(f, maxModuleSize+1))
	if err != nil {
		return nil, err
	}
	if len(wasm) > maxModuleSize {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxModuleSize)
	}
	return wasm, nil
}

// load makes a module of its bytes: everything that can refuse it, up to a
// first configured instance.
func (l *loader) load(ctx context.Context, name string, wasm []byte) (_ *Module, err error) {
	o := l.options
	man, err := manifest.FromModule(wasm)
	if err != nil {
		return nil, err
	}
	if err := auditManifest(man, &o.Limits); err != nil {
		return nil, err
	}
	settings, err := man.Resolve(o.Config[name])
	if err != nil {
		return nil, err
	}
	memory := int64(defaultMemory)
	if man.Budgets.MemoryBytes > 0 {
		memory = man.Budgets.MemoryBytes
	}
	m := &Module{
		name:     name,
		manifest: man,
		limits:   o.Limits,
		fuel:     min(defaultFuel, o.Limits.Fuel),
		output:   min(defaultOutput, o.Limits.Output),
		config:   abi.AppendConfig(nil, settings),
		pool:     newPool(o.Instances),
		metrics:  l.metrics.of(name),
		logRate:  logRate{most: o.Limits.LogRate, clock: l.clock},
		log:      o.Log,
		clock:    l.clock,
	}
	if man.Budgets.Fuel > 0 {
		m.fuel = man.Budgets.Fuel
	}
	if man.Budgets.OutputBytes > 0 {
		m.output = int(man.Budgets.OutputBytes)
	}
	if o.OnFailure == FailClosed {
		m.failed = &host.Ruling{
			Action: host.Reject, Rule: "failed", Module: name,
			Reason: "error: policy " + name + " failed, try again later",
		}
	}
	metered, err := meter.Rewrite(wasm, meter.Options{StartFuel: startFuel, MaxModule: maxModuleSize})
	if err != nil {
		return nil, err
	}

	const page = 64 << 10
	config := wazero.NewRuntimeConfig().
		WithMemoryLimitPages(uint32(max(min(memory/page, 65535), 1))).
		WithDebugInfoEnabled(false)
	if o.CacheDir != "" {
		if m.code, err = openCode(o.CacheDir, metered); err != nil {
			return nil, err
		}
		config = config.WithCompilationCache(m.code.cache)
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	defer func() {
		if err != nil {
			m.release(context.WithoutCancel(ctx))
		}
	}()
	if m.compiled, err = m.runtime.CompileModule(ctx, metered); err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	if m.code != nil {
		// A full disk costs the next start its time, not this one its module.
		if err := m.code.seal(); err != nil {
			o.Log.Warn("compiled policy is not kept", "module", name, "err", err)
		}
	}
	if err := auditModule(m.compiled, man); err != nil {
		return nil, err
	}
	if err := m.offer(ctx); err != nil {
		return nil, err
	}
	<-m.pool.vacant
	inst, err := m.newInstance(ctx)
	if err != nil {
		return nil, err
	}
	m.pool.put(inst)
	return m, nil
}

// offer defines the host functions that the module may import.
func (m *Module) offer(ctx context.Context) error {
	host := m.runtime.NewHostModuleBuilder(abi.ImportModule)
	for name, f := range capabilities {
		if slices.Contains(m.manifest.Capabilities, name) {
			define(host, name, f)
		}
	}
	if _, err := host.Instantiate(ctx); err != nil {
		return fmt.Errorf("offer host functions: %w", err)
	}
	system := m.runtime.NewHostModuleBuilder(wasiModule)
	for name, f := range wasi {
		define(system, name, f)
	}
	if _, err := system.Instantiate(ctx); err != nil {
		return fmt.Errorf("offer WASI: %w", err)
	}
	return nil
}

func (m *Module) newInstance(ctx context.Context) (*instance, error) {
	inst, err := newInstance(ctx, m)
	if err != nil {
		return nil, err
	}
	m.metrics.instances.Inc()
	inst.report(inst.memory.Size())
	return inst, nil
}

// report tells the metrics how much memory the instance has.
func (inst *instance) report(size uint32) {
	if size != inst.pages {
		inst.module.metrics.memory.Add(float64(size) - float64(inst.pages))
		inst.pages = size
	}
}

// discard closes an instance.
func (m *Module) discard(inst *instance) {
	m.metrics.instances.Dec()
	inst.report(0)
	inst.guest.Close(context.Background())
}

// admit asks the module about a request. An error means that the host failed or
// ctx was done.
func (m *Module) admit(ctx context.Context, request []byte, facts host.Facts, now int64) (host.Ruling, error) {
	m.metrics.calls.Inc()
	inst, err := m.pool.get(ctx)
	if err != nil {
		return host.Ruling{}, fmt.Errorf("wait for an instance: %w", err)
	}
	if inst == nil {
		if inst, err = m.replace(ctx); err != nil {
			m.pool.giveUp()
			return m.fail(err)
		}
	}
	start := m.clock()
	ruling, err := inst.decide(ctx, request, facts, now)
	m.metrics.seconds.Observe(m.clock().Sub(start).Seconds())
	switch {
	case err == nil:
		if m.shaken.Load() {
			m.shaken.Store(false)
			m.breaker.worked()
		}
	case asFailure(err) != nil:
		m.discard(inst)
		m.pool.giveUp()
		return m.fail(err)
	}
	inst.report(inst.memory.Size())
	m.pool.put(inst)
	return ruling, err
}

// replace makes an instance for a vacant place, unless the breaker is open.
func (m *Module) replace(ctx context.Context) (*instance, error) {
	if m.shaken.Load() && !m.breaker.allow(m.clock()) {
		return nil, &failure{cause: causeBreaker, what: "failed too often and rests"}
	}
	inst, err := m.newInstance(ctx)
	if err != nil {
		return nil, &failure{cause: causeStart, what: "could not be started again", err: err}
	}
	return inst, nil
}

// fail counts a failure of the module and returns what happens to the event.
func (m *Module) fail(err error) (host.Ruling, error) {
	f := asFailure(err)
	if f == nil {
		return host.Ruling{}, err
	}
	m.metrics.failures[f.cause].Inc()
	if f.cause != causeBreaker {
		m.breaker.failed()
		m.shaken.Store(true)
		if m.logRate.take() {
			m.log.Error("policy failed", "module", m.name, "cause", string(f.cause), "err", cut(err.Error(), 1<<10))
		}
	}
	if m.failed == nil {
		return host.Ruling{Action: host.Pass, Module: m.name}, nil
	}
	return *m.failed, nil
}

// close waits for the calls under way, then closes instances, code and runtime.
func (m *Module) close(ctx context.Context) error {
	quiet := m.pool.drain(ctx)
	err := m.release(context.WithoutCancel(ctx))
	if !quiet {
		err = cmpErr(err, fmt.Errorf("close policy %s: %w", m.name, ctx.Err()))
	}
	return err
}

// release closes everything, in use or not.
func (m *Module) release(ctx context.Context) error {
	err := m.runtime.Close(ctx)
	if m.code != nil {
		err = cmpErr(err, m.code.close(ctx))
	}
	return err
}
