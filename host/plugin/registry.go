package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/contain"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/state"
	"talon/sdk/abi/manifest"
)

// Registry is all plugins. Its methods may be called by many goroutines.
type Registry struct {
	o        Options
	state    *state.Memory
	history  *folder.History // nil: none
	journal  *journal
	counters counterSet
	metrics  *metrics
	events   *guest.EventCache
	busy     waves
	panics   *contain.Guard // around changes

	cacheDir string // absolute

	current atomic.Pointer[activeSet]

	recording atomic.Pointer[recording] // nil: nobody records

	shared *shared // nil: no others run the same plugins

	changing sync.Mutex  // held while files are read and modules are loaded
	bundling sync.Mutex  // held while the fallback is loaded
	fallback *generation // nil until a side-car asks for it; read with changing held

	// Who holds changing and inspecting may change the fields below; who holds one of
	// them may read them.
	inspecting sync.Mutex
	slots      map[string]*slot
	problems   map[string]string // of names that cannot be plugins

	refs     sync.Mutex // guards generation.users and the field below
	reducers map[*Reducer]struct{}
	closing  sync.WaitGroup // active sets and generations that are being closed
}

// slot is a name: what lies in the folder under it, and what runs.
type slot struct {
	seen    seen
	applied key         // of the source that counts now
	running *generation // made of it; nil: off, or none has passed
	off     bool        // the side-car says so, or the choice of policies leaves it out
	leftOut bool        // that choice does not name it
	record  folder.Record
	refused *refused // what lies in the folder does not run

	required bool // by its side-car; see Registry.requires
	position int  // that it had when it ran last
	gone     bool // its files are not in the folder, and it is required
}

// seen are the files as they were when they were looked at last.
type seen struct{ wasm, sidecar, signature, sidecarSignature folder.Stamp }

type refused struct {
	key    key
	at     time.Time
	reason string
}

// Open loads every plugin of the folder. A plugin that cannot be loaded is
// replaced by its last good generation. If there is none, and the plugin has not
// been refused before, Open fails: nothing has been decided without it so far.
func Open(ctx context.Context, o Options) (_ *Registry, err error) {
	o.setDefaults()
	r := &Registry{
		o:        o,
		journal:  newJournal(o.Decisions),
		slots:    make(map[string]*slot),
		reducers: make(map[*Reducer]struct{}),
		panics:   contain.New(contain.Plugins, o.Log),
		busy:     waves{log: o.Log, now: o.Now},
	}
	if r.cacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, err
	}
	if r.state, err = state.Open(ctx, o.Disk, state.Options{Quota: o.StateQuota, Log: o.Log, Now: o.Now}); err != nil {
		return nil, fmt.Errorf("read what plugins remember: %w", err)
	}
	if o.History != "" {
		if r.history, err = folder.OpenHistory(o.History); err != nil {
			return nil, fmt.Errorf("open the last good plugins: %w", err)
		}
		for _, problem := range r.history.Problems() {
			o.Log.Warn("a last good plugin is lost", "problem", problem)
		}
	}
	r.metrics, r.events, r.shared = newMetrics(r), guest.NewEventCache(), newShared(o.Nodes)
	r.closing.Add(1)
	r.current.Store(newActiveSet(nil, nil, r.closeSet))
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	if r.shared != nil {
		return r, r.startShared(ctx)
	}
	return r, r.start(ctx)
}

// Run saves what plugins remember and follows the files that they depend on,
// until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	var g errgroup.Group
	run := func(f func() error) { g.Go(func() error { return r.panics.Run(f) }) }
	run(func() error { return r.state.Run(ctx) })
	if r.o.Watch {
		run(func() error {
			return folder.Watch(ctx, r.o.Dir, folder.WatchOptions{Log: r.o.Log}, func() { r.contain(func() { r.reconcile(ctx) }) })
		})
	}
	if r.shared != nil {
		run(func() error { return r.followOthers(ctx) })
	}
	run(func() error {
		tick := time.NewTicker(refreshEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.contain(func() { r.refresh(ctx) })
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// contain runs f. After a panic the running modules go on, and the next look at the folder compares
// them with its files, as after any other failure.
func (r *Registry) contain(f func()) {
	_ = r.panics.Run(func() error {
		f()
		return nil
	})
}

// refreshEvery is how soon a change of a set's file is seen.
const refreshEvery = 2 * time.Second

func (r *Registry) refresh(ctx context.Context) {
	l := r.acquireSet()
	defer l.release()
	for _, s := range l.followers {
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.Warn("read a set again", "err", err)
		}
	}
}

// Published follows the nostr lists that sets are made of. It is called with
// every commit.
func (r *Registry) Published(ctx context.Context, events []host.Published) {
	l := r.acquireSet()
	defer l.release()
	for _, s := range l.followers {
		s.Published(ctx, events)
	}
}

// Why returns the last decision about an event, if it is remembered.
func (r *Registry) Why(event host.ID) (Why, bool) { return r.journal.find(event, r.o.Now()) }

// Close ends everything. It waits until ctx is done for calls under way. No
// method may be called afterwards.
func (r *Registry) Close(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.refs.Lock()
	reducers := r.reducers
	r.reducers = nil
	r.refs.Unlock()
	for x := range reducers {
		x.close()
	}
	if r.shared != nil {
		r.discard()
	}
	r.current.Load().release()
	if r.fallback != nil {
		r.release(r.fallback)
	}
	closed := make(chan struct{})
	go func() {
		r.closing.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for plugins: %w", ctx.Err())
	}
}

// install makes an active set of what the slots run, and puts it in the place of the
// current one. REQUIRES: changing.
func (r *Registry) install() {
	var generations []*generation
	for name, s := range r.slots {
		if s.running != nil {
			generations = append(generations, s.running)
		} else if reason := r.missing(name, s); reason != "" {
			generations = append(generations, r.absent(name, s))
		}
	}
	r.activate(r.assemble(generations))
}

// assemble makes an active set. REQUIRES: changing.
func (r *Registry) assemble(generations []*generation) *activeSet {
	slices.SortFunc(generations, (*generation).compare)
	if r.fallback != nil {
		generations = append(generations, r.fallback)
	}
	r.acquire(generations...)
	r.closing.Add(1)
	return newActiveSet(generations, r.fallback, r.closeSet)
}

// activate puts an active set in the place of the current one. It does not wait.
func (r *Registry) activate(next *activeSet) {
	old := r.current.Swap(next)
	if old.decides() && !next.decides() {
		r.o.Log.Warn("no plugin decides about events any more: all are refused")
	}
	old.release()
	r.refs.Lock()
	defer r.refs.Unlock()
	for x := range r.reducers {
		x.notify()
	}
}

// acquireSet returns the current active set; the caller releases it.
func (r *Registry) acquireSet() *activeSet {
	for {
		// An active set that has ended is not current any more.
		if l := r.current.Load(); l.acquire() {
			return l
		}
	}
}

// closeSet lets go what an active set held. It is called by the last decision that used
// it, which does not wait.
func (r *Registry) closeSet(l *activeSet) {
	go func() {
		defer r.closing.Done()
		r.contain(func() { r.release(l.generations...) })
	}()
}

func (r *Registry) acquire(generations ...*generation) {
	r.refs.Lock()
	defer r.refs.Unlock()
	for _, g := range generations {
		g.users++
	}
}

// release is the inverse of acquire. It closes what nobody holds any more.
func (r *Registry) release(generations ...*generation) {
	var unused []*generation
	r.refs.Lock()
	for _, g := range generations {
		if g.users--; g.users == 0 {
			unused = append(unused, g)
		}
	}
	r.refs.Unlock()
	for _, g := range unused {
		if err := g.close(); err != nil {
			r.o.Log.Warn("close a plugin", "plugin", g.name, "generation", g.number, "err", err)
		}
	}
}

// Options says where plugins are, and what they may use.
type Options struct {
	Dir     string // folder with NAME.wasm and NAME.toml
	History string // folder of the last good generations; empty: none are kept

	// Policy names the policies that decide, in their order; each other one is off. Nil:
	// all of the folder decide, by their places.
	Policy []string

	// CacheDir keeps compiled code between starts. Empty: none is kept.
	CacheDir string

	// Compiler is a command that does what [guest.ServeCompile] does, for modules that are
	// not in the cache yet. Nil: they are compiled in this process.
	Compiler []string

	// Prepared is a folder with compiled code of modules that came with the program, and is
	// trusted like it. Empty: there is none.
	Prepared string

	// Bundled is the folder of the modules that came with the program: what
	// on-failure = "bundled" falls back to.
	Bundled string

	// AllowExec lets side-cars name programs, which then run with all our rights.
	AllowExec bool

	// Signers are keys of which one must have signed a module; empty: nobody must,
	// if its side-car names nobody.
	Signers [][32]byte

	Limits guest.Limits // what one module may use at most

	Disk       state.Disk // where state is kept; nil: in memory alone
	StateQuota int64      // bytes that one plugin may remember, if its side-car does not say

	Facts host.Facts     // for what is asked outside of the pipeline, and for sets
	Held  host.HeldFacts // events in purgatory, where facts have none; nil: there are none
	Git   guest.Git      // repositories; nil: there are none

	Service host.Service // how the relay is reached from outside, for every plugin

	Decisions int // that Why remembers
	Instances int // concurrent calls of one module; default GOMAXPROCS

	// Watch follows changes of the folder in Run.
	Watch bool

	// Nodes are the servers that run the same plugins. What the folder has is then a
	// proposal to all of them if Watch is set, and else only if nothing runs yet. Nil: there
	// are no others.
	Nodes Nodes

	Log *slog.Logger
	Now func() time.Time
}

func (o *Options) setDefaults() {
	o.Instances = max(cmp.Or(o.Instances, runtime.GOMAXPROCS(0)), 1)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
}

// leavesOut reports whether the operator's choice of policies leaves a plugin out, and
// whether that leaves nothing of it: it serves no other world.
func (r *Registry) leavesOut(s *source) (out, whole bool) {
	if r.o.Policy == nil || s.bundled || slices.Contains(r.o.Policy, s.name) {
		return false, false
	}
	if s.wasm == nil {
		return true, true // nothing of it serves another world
	}
	m, err := guest.ReadManifest(s.wasm)
	if err != nil || !slices.Contains(m.Worlds, manifest.WorldPolicy) {
		return false, false // what is wrong with it, others say
	}
	return true, !slices.ContainsFunc(m.Worlds, func(world string) bool { return world != manifest.WorldPolicy })
}

// placeOf is the place that the operator's choice gives a plugin, or else its own.
func (r *Registry) placeOf(name string, own int) int {
	if at := slices.Index(r.o.Policy, name) + 1; at > 0 {
		return at
	}
	return own
}

// checkPolicy checks that what the operator chose is there.
func (r *Registry) checkPolicy(findings []*candidate) error {
	var policies []string
	for _, f := range findings {
		if g := f.generation; g != nil && (g.leftOut || !g.off && g.serves(manifest.WorldPolicy)) {
			policies = append(policies, f.name)
		}
	}
	for _, name := range r.o.Policy {
		if slices.Contains(policies, name) {
			continue
		}
		at := slices.IndexFunc(findings, func(f *candidate) bool { return f.name == name })
		switch {
		case at < 0:
			return fmt.Errorf("option policy names %s, and there is no %[1]s.wasm in %s: the policies there are %s", name, r.o.Dir, listed(policies))
		case findings[at].generation != nil && !findings[at].generation.off:
			return fmt.Errorf("option policy names %s, which is no policy: leave it out, it runs all the same; the policies in %s are %s", name, r.o.Dir, listed(policies))
		}
	}
	return nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
