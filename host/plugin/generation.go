package plugin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/plugin/sets"
	"talon/host/plugin/sidecar"
	"talon/internal/smallfile"
	"talon/sdk/abi/manifest"
)

// source is what a generation is made of: a module and its side-car.
type source struct {
	name    string
	wasm    []byte // nil if the side-car names a program
	sidecar []byte // nil if there is none
	key     key

	signature []byte // nil if there is none, or none is asked for
	bundled   bool   // it came with the program
}

// key tells sources apart.
type key struct {
	wasm    [sha256.Size]byte
	sidecar [sha256.Size]byte
	plain   bool // there is no side-car

	signature [sha256.Size]byte
	program   bool // there is no module
	barred    bool // it may not take the place of what ran
}

func newSource(name string, wasm, sidecar []byte) *source {
	return &source{name: name, wasm: wasm, sidecar: sidecar, key: key{
		wasm: sha256.Sum256(wasm), sidecar: sha256.Sum256(sidecar), plain: sidecar == nil, program: wasm == nil,
	}}
}

func (k key) sha256() string { return hex.EncodeToString(k.wasm[:]) }

func (k key) sidecarSHA256() string {
	if k.plain {
		return ""
	}
	return hex.EncodeToString(k.sidecar[:])
}

// generation is a plugin that has passed every check: a loaded module, or a program,
// with its settings. It never changes; a change of any of its files makes another.
type generation struct {
	name     string
	number   int64
	since    time.Time
	key      key
	position int
	file     *sidecar.File
	module   *guest.Module
	sets     *sets.Sets // nil if it has none
	counters *counters  // of the name

	program *processPool // in the place of a module, which is nil then
	breaker breaker
	meters  *metrics
	busy    *waves // of the registry

	signer string // npub of who signed the module; empty: nobody had to

	refusal host.Ruling // the answer to a client when the module fails

	required bool
	absent   bool // it stands for a policy that does not run: it refuses
	hidden   bool // decides only where another has failed
	leftOut  bool // a policy that the operator's choice of them does not name
	off      bool // by its side-car, or because it is left out and nothing else

	users int // active sets and reducers that hold it; guarded by Registry.refs
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
		o.Elsewhere = func(ctx context.Context) error {
			job := &guest.CompileJob{
				Name: g.name, Wasm: s.wasm, Sidecar: s.sidecar, Limits: r.o.Limits, Service: r.o.Service, CacheDir: r.cacheDir,
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
	if g.module, err = guest.Load(ctx, s.wasm, o); err != nil {
		return nil, err
	}
	if !g.module.Tested() {
		if err := guest.SelfTest(ctx, s.wasm, o); err != nil {
			return nil, errors.Join(err, g.module.Close(context.WithoutCancel(ctx)))
		}
	}
	g.position = g.module.Manifest().Place
	if file.Place != nil {
		g.position = *file.Place
	}
	return g, nil
}

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
		Prepared:  r.o.Prepared,
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
	wasm, err := smallfile.Read(filepath.Join(r.o.Bundled, bundledPolicy+".wasm"), maxModule)
	if err == nil {
		var g *generation
		s := newSource("bundled-"+bundledPolicy, wasm, nil)
		s.bundled = true
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

// compare orders generations as they are asked.
func (g *generation) compare(other *generation) int {
	return cmp.Or(cmp.Compare(g.position, other.position), strings.Compare(g.name, other.name))
}

// serves reports whether the module is for a world.
func (g *generation) serves(world string) bool {
	if g.program != nil || g.absent {
		return world == manifest.WorldPolicy
	}
	return slices.Contains(g.module.Manifest().Worlds, world)
}

// shadow reports whether what it says has no effect.
func (g *generation) shadow() bool { return g.file.Mode == sidecar.Shadow }

// close releases the module or the program, which nobody calls any more.
func (g *generation) close() error {
	if g.program != nil {
		return g.program.close()
	}
	if g.module == nil {
		return nil
	}
	return g.module.Close(context.Background())
}

// activeSet is what decides at one moment: the plugins of every policy function in
// their order. It never changes. A decision is taken by one active set from
// beginning to end, however often plugins are swapped meanwhile.
type activeSet struct {
	refs  atomic.Int64 // calls under way, and one for being the current active set
	ended func(*activeSet)

	chains [chains]chain

	about []host.Description // of those that enforce and say something

	generations []*generation // everything it keeps alive
	followers   []*sets.Sets
}

// chains is how many policy functions there are; a guest.Func below it is one.
const chains = int(guest.Push) + 1

// chain is the plugins of one function, in the order in which they are asked.
type chain struct {
	links []link
	names []string // of those that enforce, for the journal
	hosts int      // links up to the last that hosts; 0: none does

	fallback *generation // what on-failure = "bundled" asks; nil if nothing does
}

type link struct {
	*generation
	shadow bool
	hosts  bool // it makes repositories for announcements, or may, since it is missing
}

// newActiveSet makes an active set of generations that are in order.
func newActiveSet(generations []*generation, fallback *generation, ended func(*activeSet)) *activeSet {
	l := &activeSet{ended: ended, generations: generations}
	l.refs.Store(1)
	for f := range l.chains {
		l.chains[f].fallback = fallback
	}
	for _, g := range generations {
		if g == fallback && g.hidden {
			continue
		}
		if g.sets != nil {
			l.followers = append(l.followers, g.sets)
		}
		if g.leftOut {
			continue // it serves another world
		}
		about := g.about()
		if g.file.Mode == sidecar.Enforce && (len(about.Grasps) > 0 || about.Criteria != "" || about.Curation != "" || about.Writes != host.WritesUnsaid) {
			l.about = append(l.about, about)
		}
		for f := range chains {
			if !g.calls(guest.Func(f)) {
				continue
			}
			c := &l.chains[f]
			shadow := g.file.Mode == sidecar.Shadow
			hosts := !shadow && (about.Hosts() || g.absent)
			c.links = append(c.links, link{g, shadow, hosts})
			if !shadow {
				c.names = append(c.names, g.name)
			}
			if hosts {
				c.hosts = len(c.links)
			}
		}
	}
	return l
}

// decides reports whether a plugin that enforces is asked about events.
func (l *activeSet) decides() bool { return len(l.chains[guest.Admit].names) > 0 }

// acquire keeps the active set from ending, if it has not ended.
func (l *activeSet) acquire() bool {
	for {
		n := l.refs.Load()
		if n == 0 {
			return false
		}
		if l.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends what acquire began. The last release of an active set that is not
// current any more ends it.
func (l *activeSet) release() {
	if l.refs.Add(-1) == 0 {
		l.ended(l)
	}
}

// refusalOf returns the answer to a client when a plugin fails.
func refusalOf(name string) host.Ruling {
	return host.Ruling{
		Action: host.Reject, Rule: "failed", Module: name,
		Reason: "error: policy " + name + " failed, try again later",
	}
}
