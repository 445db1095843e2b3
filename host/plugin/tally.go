package plugin

import (
	"sync"
	"sync/atomic"
)

// tally is what an operator wants to know of a name, over all its generations.
type tally struct {
	calls    atomic.Uint64
	failures atomic.Uint64
	disputes disputes

	mu   sync.Mutex // guards the field below
	last string
}

func (t *tally) failed(f error) {
	t.failures.Add(1)
	t.mu.Lock()
	t.last = f.Error()
	t.mu.Unlock()
}

func (t *tally) lastFailure() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// tallies are those of all names.
type tallies struct {
	mu sync.Mutex // guards the field below
	by map[string]*tally
}

// of returns the tally of a name, always the same.
func (t *tallies) of(name string) *tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil {
		t.by = make(map[string]*tally)
	}
	if t.by[name] == nil {
		t.by[name] = new(tally)
	}
	return t.by[name]
}

// forget drops a name that is gone.
func (t *tallies) forget(name string) {
	t.mu.Lock()
	delete(t.by, name)
	t.mu.Unlock()
}
