package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host/plugin/guest"
	"talon/host/plugin/sets"
	"talon/host/plugin/sidecar"
	"talon/sdk/abi/manifest"
)

// buildAll builds the candidates that do not run yet. While the relay serves, it takes one
// processor at most. REQUIRES: changing.
func (r *Registry) buildAll(ctx context.Context, list []*candidate) {
	var g errgroup.Group
	g.SetLimit(1)
	if len(r.current.Load().generations) == 0 {
		g.SetLimit(runtime.GOMAXPROCS(0))
	}
	for _, f := range list {
		if f.err != nil || f.same {
			continue
		}
		g.Go(func() error {
			if err := r.panics.Run(func() error {
				f.generation, f.err = r.build(ctx, f.source)
				return nil
			}); err != nil {
				f.generation, f.err = nil, err
			}
			return nil
		})
	}
	_ = g.Wait()
}

// build makes a generation: every step that can refuse it. The error is one
// sentence for the operator. A plugin that is off comes back without a module.
func (r *Registry) build(ctx context.Context, s *source) (_ *generation, err error) {
	file, err := sidecar.Parse(s.sidecar)
	if err != nil {
		return nil, fmt.Errorf("%s.toml: %w", s.name, err)
	}
	if file.SHA256 != "" && file.SHA256 != s.key.sha256() {
		return nil, fmt.Errorf("the side-car is for the module with sha256 %s; this one has %s", file.SHA256, s.key.sha256())
	}
	g := &generation{name: s.name, key: s.key, file: file, counters: r.counters.of(s.name), refusal: refusalOf(s.name), meters: r.metrics, busy: &r.busy}
	g.breaker.now = r.o.Now
	g.required = file.Required || slices.Contains(r.o.Policy, s.name)
	if g.leftOut, g.off = r.leavesOut(s); g.off || file.Mode == sidecar.Off {
		g.off = true
		return g, nil
	}
	if file.Failure(manifest.WorldPolicy) == sidecar.Bundled {
		if err := r.loadFallback(ctx); err != nil {
			return nil, err
		}
	}
	if file.Program != nil {
		if err := r.startProgram(g, s); err != nil {
			return nil, err
		}
		return g, nil
	}
	if s.wasm == nil {
		return nil, fmt.Errorf("there is no %s.wasm for this side-car", s.name)
	}
	if g.signer, err = r.checkSigner(file, s); err != nil {
		return nil, err
	}
	o := r.guestOptions(g)
	if r.o.Compiler != nil && r.o.CacheDir != "" {
		text := s.sidecar // the module keeps o, and must not keep its own file
		o.Elsewhere = func(ctx context.Context, wasm []byte) error {
			r.o.Log.Info("compiling a module, which takes some seconds …", "plugin", g.name)
			job := &guest.CompileJob{
				Name: g.name, Wasm: wasm, Sidecar: text, Limits: r.o.Limits, Service: r.o.Service, CacheDir: r.cacheDir,
				Background: len(r.current.Load().generations) > 0,
			}
			return job.Run(ctx, r.o.Compiler)
		}
	}
	if len(file.Sets) > 0 {
		if g.sets, err = sets.Open(ctx, r.o.Dir, file.Sets, r.o.Facts, sets.Options{Log: r.o.Log}); err != nil {
			return nil, err
		}
		o.Sets = g.sets
	}
	o.Sets = hostSets{sidecar: o.Sets, known: r.o.Known, allowed: r.o.Allowed}
	if g.module, err = guest.Load(ctx, s.wasm, o); err != nil {
		return nil, err
	}
	if !g.module.Tested() {
		if err := guest.SelfTest(ctx, s.wasm, o); err != nil {
			return nil, errors.Join(err, g.module.Close(context.WithoutCancel(ctx)))
		}
	}
	if err := checkSets(g.module.Manifest(), file, o.Sets); err != nil {
		return nil, errors.Join(err, g.module.Close(context.WithoutCancel(ctx)))
	}
	g.position = g.module.Manifest().Place
	if file.Place != nil {
		g.position = *file.Place
	}
	return g, nil
}

// checkSets returns an error for a set that the module never reads, and for a setting that names a set
// which is not there.
func checkSets(m *manifest.Manifest, file *sidecar.File, all guest.Sets) error {
	names := make([]string, len(file.Sets))
	for i := range file.Sets {
		names[i] = file.Sets[i].Name
		if err := m.CheckSet(names[i]); err != nil {
			return err
		}
	}
	return m.CheckNamedSets(file.Config, names, func(name string) bool {
		_, exists := all.Contains([]byte(name), nil)
		return exists
	})
}

// startProgram makes the generation one of a program, of which nothing runs before it
// is asked.
func (r *Registry) startProgram(g *generation, s *source) (err error) {
	switch {
	case s.wasm != nil:
		return errors.New("the side-car names a program (exec), and there is a module: want one of the two")
	case !r.o.AllowExec:
		return errExec
	case len(r.o.Signers) > 0:
		return errors.New("the side-car names a program (exec), which nobody can sign, and --plugin-signers lets only signed modules run")
	}
	p := g.file.Program
	g.program, err = newProcessPool(programOptions{
		Name: g.name, Path: p.Path, Timeout: time.Duration(p.TimeoutMS) * time.Millisecond, Processes: p.Processes, Log: r.o.Log, Clock: r.o.Now,
	})
	g.position = programPlace
	if g.file.Place != nil {
		g.position = *g.file.Place
	}
	return err
}

// errExec says why a program does not run.
var errExec = errors.New("the side-car names a program (exec), and programs are off: talon serve --allow-exec true lets the folder of plugins start them, with all the rights of the relay")

func (r *Registry) guestOptions(g *generation) guest.Options {
	return guest.Options{
		Name:      g.name,
		SHA256:    g.key.wasm,
		Grants:    g.file.Grants,
		Config:    g.file.Config,
		Budgets:   guest.BudgetsOf(&g.file.Budgets),
		Limits:    r.o.Limits,
		State:     r.state.Of(g.name),
		Held:      r.o.Held,
		Git:       r.o.Git,
		Service:   r.o.Service,
		CacheDir:  r.o.CacheDir,
		Prepared:  r.prepared(),
		Source:    r.moduleAgain(g),
		Instances: r.o.Instances,
		Events:    r.events,
		Metrics:   r.metrics.guests,
		Log:       r.o.Log,
	}
}

// bundledPolicy is what decides where a policy has failed whose side-car says
// on-failure = "bundled".
const bundledPolicy = "grasp"

// loadFallback loads the bundled policy, with its defaults, if it is not there
// yet.
func (r *Registry) loadFallback(ctx context.Context) error {
	r.bundling.Lock()
	defer r.bundling.Unlock()
	if r.fallback != nil {
		return nil
	}
	wasm, err := r.o.Bundled.Wasm(bundledPolicy)
	if err == nil {
		var g *generation
		s := newSource("bundled-"+bundledPolicy, wasm, nil)
		s.hidden = true
		if g, err = r.build(ctx, s); err == nil {
			g.hidden = true
			r.acquire(g)
			r.fallback = g
		}
	}
	if err != nil {
		return fmt.Errorf("on-failure = \"bundled\": the bundled policy cannot be loaded: %w", err)
	}
	return nil
}
