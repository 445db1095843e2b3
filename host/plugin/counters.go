package plugin

import (
	"sync"
	"sync/atomic"
)

// counters is what an operator wants to know of a name, over all its generations.
type counters struct {
	calls    atomic.Uint64
	failures atomic.Uint64
	disputes disputes

	mu   sync.Mutex // guards the field below
	last string
}

func (t *counters) failed(f error) {
	t.failures.Add(1)
	t.mu.Lock()
	t.last = f.Error()
	t.mu.Unlock()
}

func (t *counters) lastFailure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// counterSet are those of all names.
type counterSet struct {
	mu sync.Mutex // guards the field below
	by map[string]*counters
}

// of returns the counters of a name, always the same.
func (t *counterSet) of(name string) *counters {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = make(map[string]*counters)
	}
	if t.by[name] == nil {
		t.by[name] = new(counters)
	}
	return t.by[name]
}

// forget drops a name that is gone.
func (t *counterSet) forget(name string) {
	t.mu.Lock()
	delete(t.by, name)
	t.mu.Unlock()
}
