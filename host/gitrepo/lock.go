package gitrepo

import (
	"context"
	"fmt"
	"sync"
)

// locks are mutexes by key that exist while somebody holds or wants them.
type locks struct {
	peers peers // the other processes that may change what the keys are for

	mu   sync.Mutex // guards keys
	keys map[string]*keyLock
}

type keyLock struct {
	token chan struct{} // holds one value while the lock is taken
	users int           // that hold it or wait; guarded by locks.mu
	held  HeldLock      // of who holds it, nil where the process is alone; guarded by locks.mu
}

// lock waits for the key until ctx ends. The function that it returns gives the
// lock back; more calls of it do nothing.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.keys == nil {
		l.keys = map[string]*keyLock{}
	}
	k := l.keys[key]
	if k == nil {
		k = &keyLock{token: make(chan struct{}, 1)}
		l.keys[key] = k
	}
	k.users++
	l.mu.Unlock()

	select {
	case k.token <- struct{}{}:
	case <-ctx.Done():
		l.release(key, k)
		return nil, fmt.Errorf("lock a repository: %w", context.Cause(ctx))
	}
	local := sync.OnceFunc(func() {
		<-k.token
		l.release(key, k)
	})
	hold, err := l.peers.acquire(ctx, key)
	if err != nil {
		local()
		return nil, fmt.Errorf("lock a repository: %w", err)
	}
	if hold == nil {
		return local, nil
	}
	l.setHeldLock(k, hold)
	return sync.OnceFunc(func() {
		l.setHeldLock(k, nil)
		hold.Unlock()
		local()
	}), nil
}

func (l *locks) setHeldLock(k *keyLock, hold HeldLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.held = hold
}

// heldLock returns what the process has of a lock among its peers, nil where it is alone.
func (l *locks) heldLock(key string) HeldLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := l.keys[key]; k != nil {
		return k.held
	}
	return nil
}

// check fails if another process may have got the lock of a key. REQUIRES: the lock.
func (l *locks) check(dir string) error { return l.peers.check(dir, l.heldLock(dir)) }

// bound returns a context that ends when the lock of a key is lost to another process.
func (l *locks) bound(ctx context.Context, key string) (context.Context, context.CancelFunc) {
	if hold := l.heldLock(key); hold != nil {
		return hold.Context(ctx)
	}
	return ctx, func() {}
}

// release ends one use of a lock, which goes with its last.
func (l *locks) release(key string, k *keyLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.keys, key)
	}
}

// len is the number of locks that somebody holds or wants.
func (l *locks) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.keys)
}
