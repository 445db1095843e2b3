package plugin

import (
	"slices"
	"sync"
	"sync/atomic"

	"talon/host/contain"
	"talon/host/plugin/folder"
	"talon/host/plugin/guest"
	"talon/host/plugin/state"
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

	others others // that run the same plugins

	changing sync.Mutex  // held while files are read and modules are loaded
	bundling sync.Mutex  // held while the fallback is loaded
	fallback *generation // nil until a side-car asks for it; read with changing held

	// Both changing and inspecting guard the fields below: writers hold both, readers one.
	inspecting sync.Mutex
	slots      map[string]*slot
	problems   map[string]string // of names that cannot be plugins

	refs     sync.Mutex // guards generation.users and the field below
	watchers map[watcher]struct{}
	closing  sync.WaitGroup // active sets and generations that are being closed
}

// watcher holds a generation in addition to the active set.
type watcher interface {
	notify() // the active set is another
	close()  // the registry ends
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

// contain runs f. After a panic the running modules go on, and the next look at the folder compares
// them with its files, as after any other failure.
func (r *Registry) contain(f func()) {
	_ = r.panics.Run(func() error {
		f()
		return nil
	})
}

// slot returns the slot of a name, a new one if it has none. REQUIRES: changing.
func (r *Registry) slot(name string) *slot {
	if r.slots[name] == nil {
		r.slots[name] = new(slot)
		if r.history != nil {
			r.slots[name].record, _ = r.history.Record(name)
			r.slots[name].restore()
		}
	}
	return r.slots[name]
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
	for x := range r.watchers {
		x.notify()
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
