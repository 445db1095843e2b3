package gitrepo

import (
	"context"
	"sync"
)

// gate keeps work that removes files apart from a snapshot of them. Any number of such works run
// at a time, or one snapshot. The zero value is ready.
type gate struct {
	mu      sync.Mutex // guards what follows
	working int
	paused  chan struct{} // closed when the snapshot ends; nil if there is none
	idle    chan struct{} // closed when no work runs; nil if nobody waits for that
}

// enter waits while a snapshot is taken. The work calls release at its end.
func (g *gate) enter(ctx context.Context) (release func(), err error) {
	for {
		g.mu.Lock()
		paused := g.paused
		if paused == nil {
			g.working++
			g.mu.Unlock()
			return sync.OnceFunc(g.release), nil
		}
		g.mu.Unlock()
		select {
		case <-paused:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working--
	if g.working == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// pause lets no work begin, and waits for that which runs. The snapshot calls resume at its end.
func (g *gate) pause(ctx context.Context) (resume func(), err error) {
	for {
		g.mu.Lock()
		other := g.paused
		if other == nil {
			break // with the lock
		}
		g.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	g.paused = make(chan struct{})
	resume = sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(g.paused)
		g.paused, g.idle = nil, nil
	})
	var idle chan struct{}
	if g.working > 0 {
		idle = make(chan struct{})
		g.idle = idle
	}
	g.mu.Unlock()
	if idle == nil {
		return resume, nil
	}
	select {
	case <-idle:
		return resume, nil
	case <-ctx.Done():
		resume()
		return nil, context.Cause(ctx)
	}
}
