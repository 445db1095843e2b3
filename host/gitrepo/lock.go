package gitrepo

import (
	"context"
	"fmt"
	"sync"
)

// locks are mutexes by key that exist while somebody holds or wants them.
type locks struct {
	mu   sync.Mutex // guards keys
	keys map[string]*keyLock
}

type keyLock struct {
	token chan struct{} // holds one value while the lock is taken
	users int           // that hold it or wait; guarded by locks.mu
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
		l.leave(key, k)
		return nil, fmt.Errorf("lock a repository: %w", context.Cause(ctx))
	}
	return sync.OnceFunc(func() {
		<-k.token
		l.leave(key, k)
	}), nil
}

func (l *locks) leave(key string, k *keyLock) {
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
