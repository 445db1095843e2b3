package guest

import (
	"sync"
	"time"
)

const (
	tripAfter  = 5           // failures in a row
	retryEvery = time.Second // between new instances while tripped
)

// breaker keeps a module that always fails from spending the host's time on
// new instances.
type breaker struct {
	mu       sync.Mutex // guards the fields below
	failures int
	lastTry  time.Time
}

// allow reports whether an instance may be made now.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures >= tripAfter && now.Sub(b.lastTry) < retryEvery {
		return false
	}
	b.lastTry = now
	return true
}

// open reports whether no instance may be made now.
func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures >= tripAfter && now.Sub(b.lastTry) < retryEvery
}

func (b *breaker) failed() {
	b.mu.Lock()
	b.failures++
	b.mu.Unlock()
}

// worked closes the breaker. It is called only after a failure, so that the
// usual decision takes no lock.
func (b *breaker) worked() {
	b.mu.Lock()
	b.failures = 0
	b.mu.Unlock()
}
