package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"talon/host/plugin/guest"
)

// ErrNoPlugin says that no plugin serves a world.
var ErrNoPlugin = errors.New("no plugin serves this world")

// Reducer is the one plugin of a world that decides over time: strategy or
// throttle. It keeps its state in its own memory, so it runs in one instance, and after
// a swap it begins with the world as it is. Calls go one after the other.
type Reducer struct {
	registry *Registry
	world    string
	init     func() []byte
	changed  chan struct{}

	mu         sync.Mutex // guards the fields below
	share      share
	generation *generation
	instance   *guest.Reducer
}

// Reducer returns the reducer of a world: the first plugin in the order of places that
// serves it and enforces. init encodes the first request to a new instance; nil if the
// world has none.
func (r *Registry) Reducer(world string, init func() []byte) *Reducer {
	x := &Reducer{registry: r, world: world, init: init, changed: make(chan struct{}, 1), share: newShare(time.Now())}
	r.refs.Lock()
	r.watchers[x] = struct{}{}
	r.refs.Unlock()
	return x
}

// Serves reports whether a plugin of a world of reducers is there to be asked.
func (r *Registry) Serves(world string) bool {
	l := r.acquireSet()
	defer l.release()
	return l.first(world) != nil
}

// Changed receives after the plugin has been swapped: the next call makes a new
// instance.
func (x *Reducer) Changed() <-chan struct{} { return x.changed }

func (x *Reducer) notify() {
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// Call sends a request to the plugin. A new instance gets what init returns instead,
// and fresh is true: that must contain what the request would have said. So an owner
// changes its own records first and calls then. With a nil request nothing happens
// unless the instance is new. The answer is valid until the next call.
//
// A plugin that has taken more than its share of a processor is asked later: the caller
// waits.
//
// A *guest.Failure says that the plugin failed; the next call begins with a new
// instance.
func (x *Reducer) Call(ctx context.Context, f guest.Func, request []byte, now int64) (answer []byte, fresh bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.slow(ctx); err != nil {
		return nil, false, err
	}
	if fresh, err = x.ready(ctx); err != nil {
		return nil, false, err
	}
	if fresh && x.init != nil {
		request = x.init()
	}
	if request == nil {
		return nil, fresh, nil
	}
	t := x.generation.counters
	t.calls.Add(1)
	begun := time.Now()
	answer, fuel, err := x.instance.Call(ctx, f, request, now)
	x.share.charge(min(time.Since(begun), time.Duration(fuel)*slowestFuel))
	if failure := guest.AsFailure(err); failure != nil {
		t.failed(failure)
		x.closeInstance()
	}
	if err != nil {
		return nil, fresh, fmt.Errorf("%s %s: %w", x.world, x.generation.name, err)
	}
	return answer, fresh, nil
}

// slow waits until the plugin has its share of a processor again. REQUIRES: mu.
func (x *Reducer) slow(ctx context.Context) error {
	at := time.Now()
	wait := x.share.wait(at)
	if wait == 0 {
		return nil
	}
	if x.share.warn(at) {
		x.registry.o.Log.Warn("a plugin takes more than its share of a processor: its next steps are delayed",
			"world", x.world, "share", reducerShare, "wait", wait)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ready creates an instance of the current generation, if it has none. REQUIRES: mu.
func (x *Reducer) ready(ctx context.Context) (fresh bool, err error) {
	l := x.registry.acquireSet()
	defer l.release()
	g := l.first(x.world)
	if g != x.generation {
		x.release()
		if g != nil {
			x.registry.acquire(g)
		}
		x.generation = g
	}
	if g == nil {
		return false, ErrNoPlugin
	}
	if x.instance != nil {
		return false, nil
	}
	if x.instance, err = g.module.NewReducer(ctx); err != nil {
		if failure := guest.AsFailure(err); failure != nil {
			g.counters.failed(failure)
		}
		return false, fmt.Errorf("%s %s: %w", x.world, g.name, err)
	}
	return true, nil
}

// closeInstance closes the instance. REQUIRES: mu.
func (x *Reducer) closeInstance() {
	if x.instance != nil {
		x.instance.Close()
		x.instance = nil
	}
}

// release lets the generation go. REQUIRES: mu.
func (x *Reducer) release() {
	x.closeInstance()
	if x.generation != nil {
		x.registry.release(x.generation)
		x.generation = nil
	}
}

// Close ends the reducer. It must not be called afterwards.
func (x *Reducer) Close() {
	x.registry.refs.Lock()
	delete(x.registry.watchers, watcher(x))
	x.registry.refs.Unlock()
	x.close()
}

func (x *Reducer) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.release()
}
