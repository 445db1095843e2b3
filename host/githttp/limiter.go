package githttp

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

var errBusy = errors.New("the server is busy")

// limiter bounds how many requests git works on at once, and how many more wait. One
// network gets half of the places at most.
type limiter struct {
	work chan struct{} // one value for each that works
	wait time.Duration
	max  int // that wait or work

	mu     sync.Mutex // guards what follows
	inside int
	from   map[netip.Prefix]int // of them, by network
}

func newLimiter(work, queue int, wait time.Duration) *limiter {
	return &limiter{work: make(chan struct{}, work), wait: wait, max: work + queue, from: make(map[netip.Prefix]int)}
}

// reserve reserves a place for a client of a network, or fails with errBusy without waiting.
func (g *limiter) reserve(network netip.Prefix) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == g.max || network.IsValid() && g.from[network] >= (g.max+1)/2 {
		return nil, errBusy
	}
	g.inside++
	if network.IsValid() {
		g.from[network]++
	}
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inside--
		if !network.IsValid() {
			return
		}
		if g.from[network]--; g.from[network] == 0 {
			delete(g.from, network)
		}
	}), nil
}

// idle is how long one whose turn it is may wait for a client before others get it.
const idle = time.Second

// slot is the right to have git work. Its holder may lend it while it waits. It belongs
// to one goroutine; release may be called by another.
type slot struct {
	limiter *limiter
	ctx     context.Context // of the one request that it is for

	mu     sync.Mutex // guards what follows
	held   bool
	closed bool
}

// acquire waits for the turn of one who has entered.
func (g *limiter) acquire(ctx context.Context) (*slot, error) {
	if _, err := g.begin(ctx); err != nil {
		return nil, err
	}
	return &slot{limiter: g, ctx: ctx, held: true}, nil
}

// yieldWhile calls f, which waits for a client. If that takes long, others have their turn.
func (t *slot) yieldWhile(f func()) error {
	timer := time.AfterFunc(idle, func() { t.release(false) })
	f()
	timer.Stop()
	t.mu.Lock()
	held := t.held || t.closed
	t.mu.Unlock()
	if held {
		return nil
	}
	select {
	case t.limiter.work <- struct{}{}:
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held = !t.closed; t.closed {
		<-t.limiter.work
	}
	return nil
}

// release gives the turn away: until await is over, or for good.
func (t *slot) release(closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = t.closed || closed
	if t.held {
		t.held = false
		<-t.limiter.work
	}
}

// begin waits for the turn of one who has entered.
func (g *limiter) begin(ctx context.Context) (end func(), err error) {
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.work <- struct{}{}:
		return sync.OnceFunc(func() { <-g.work }), nil
	case <-timer.C:
		return nil, errBusy
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
