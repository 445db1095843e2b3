package plugin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"talon/host"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/sample"
	"talon/host/plugin/shelf"
	"talon/host/plugin/state"
)

// Registry is all plugins. Its methods may be called by many goroutines.
type Registry struct {
	o       Options
	state   *state.Memory
	shelf   *shelf.Shelf // nil: none
	journal *journal
	tallies tallies
	metrics *metrics
	events  *guest.EventCache

	cacheDir string // absolute

	current atomic.Pointer[lineup]

	recording atomic.Pointer[sample.Sample] // nil: nobody records

	changing sync.Mutex  // held while files are read and modules are loaded
	bundling sync.Mutex  // held while the fallback is loaded
	fallback *generation // nil until a side-car asks for it; read with changing held

	// Who holds changing and looking may change the fields below; who holds one of
	// them may read them.
	looking  sync.Mutex
	slots    map[string]*slot
	problems map[string]string // of names that cannot be plugins

	holding  sync.Mutex // guards generation.users and the field below
	reducers map[*Reducer]struct{}
	closing  sync.WaitGroup // line-ups and generations that are being closed
}

// slot is a name: what lies in the folder under it, and what runs.
type slot struct {
	seen    seen
	applied key         // of the source that counts now
	running *generation // made of it; nil: off, or none has passed
	off     bool        // the side-car says so, or the choice of policies leaves it out
	leftOut bool        // that choice does not name it
	record  shelf.Record
	refused *refused // what lies in the folder does not run

	required bool // by its side-car; see Registry.requires
	place    int  // that it had when it ran last
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
// been refused before, Open fails: nobody has yet decided without it.
func Open(ctx context.Context, o Options) (_ *Registry, err error) {
	o = o.withDefaults()
	r := &Registry{
		o:        o,
		journal:  newJournal(o.Decisions),
		slots:    make(map[string]*slot),
		reducers: make(map[*Reducer]struct{}),
	}
	if r.cacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return nil, err
	}
	if r.state, err = state.Open(ctx, o.Disk, state.Options{Quota: o.StateQuota, Log: o.Log, Now: o.Now}); err != nil {
		return nil, fmt.Errorf("read what plugins remember: %w", err)
	}
	if o.Shelf != "" {
		if r.shelf, err = shelf.Open(o.Shelf); err != nil {
			return nil, fmt.Errorf("open the last good plugins: %w", err)
		}
		for _, problem := range r.shelf.Problems() {
			o.Log.Warn("a last good plugin is lost", "problem", problem)
		}
	}
	r.metrics, r.events = newMetrics(r), guest.NewEventCache()
	r.closing.Add(1)
	r.current.Store(newLineup(nil, nil, r.end))
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close(context.WithoutCancel(ctx)))
		}
	}()
	return r, r.start(ctx)
}

// Run saves what plugins remember and follows the files that they depend on,
// until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return r.state.Run(ctx) })
	if r.o.Watch {
		g.Go(func() error {
			return folder.Watch(ctx, r.o.Dir, folder.Options{Log: r.o.Log}, func() { r.reconcile(ctx) })
		})
	}
	g.Go(func() error {
		tick := time.NewTicker(refreshEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.refresh(ctx)
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// refreshEvery is how soon a change of a set's file is seen.
const refreshEvery = 2 * time.Second

func (r *Registry) refresh(ctx context.Context) {
	l := r.enter()
	defer l.leave()
	for _, s := range l.followers {
		if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.Warn("read a set again", "err", err)
		}
	}
}

// Published follows the nostr lists that sets are made of. It is called with
// every commit.
func (r *Registry) Published(ctx context.Context, events []host.Published) {
	l := r.enter()
	defer l.leave()
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
	r.holding.Lock()
	reducers := r.reducers
	r.reducers = nil
	r.holding.Unlock()
	for x := range reducers {
		x.close()
	}
	r.current.Load().leave()
	if r.fallback != nil {
		r.let(r.fallback)
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

// install makes a line-up of what the slots run, and puts it in the place of the
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
	slices.SortFunc(generations, (*generation).compare)
	if r.fallback != nil {
		generations = append(generations, r.fallback)
	}
	r.hold(generations...)
	r.closing.Add(1)
	next := newLineup(generations, r.fallback, r.end)
	old := r.current.Swap(next)
	if old.decides() && !next.decides() {
		r.o.Log.Warn("no plugin decides about events any more: all are refused")
	}
	old.leave()
	r.holding.Lock()
	defer r.holding.Unlock()
	for x := range r.reducers {
		x.notify()
	}
}

// end lets go what a line-up held. It is called by the last decision that used
// it, which does not wait.
func (r *Registry) end(l *lineup) {
	go func() {
		defer r.closing.Done()
		r.let(l.generations...)
	}()
}

func (r *Registry) hold(generations ...*generation) {
	r.holding.Lock()
	for _, g := range generations {
		g.users++
	}
	r.holding.Unlock()
}

// let is the inverse of hold. It closes what nobody holds any more.
func (r *Registry) let(generations ...*generation) {
	var unused []*generation
	r.holding.Lock()
	for _, g := range generations {
		if g.users--; g.users == 0 {
			unused = append(unused, g)
		}
	}
	r.holding.Unlock()
	for _, g := range unused {
		if err := g.close(); err != nil {
			r.o.Log.Warn("close a plugin", "plugin", g.name, "generation", g.number, "err", err)
		}
	}
}
