package githttp

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"
)

var errBusy = errors.New("the server is busy")

// gate lets so many in at once, and so many more wait. Half of the places are for
// clients of other networks, whatever one sends.
type gate struct {
	work chan struct{} // one value for each that works
	wait time.Duration
	most int // that wait or work

	mu     sync.Mutex // guards what follows
	inside int
	from   map[netip.Prefix]int // of them, by network
}

func newGate(work, queue int, wait time.Duration) *gate {
	return &gate{work: make(chan struct{}, work), wait: wait, most: work + queue, from: make(map[netip.Prefix]int)}
}

// enter takes a place in the line for a client of a network, or fails at once with
// errBusy.
func (g *gate) enter(network netip.Prefix) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside == g.most || network.IsValid() && g.from[network] >= (g.most+1)/2 {
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

// turn is that of one who works at a gate. It may be given to others for a while, and
// belongs to one goroutine, but for rest.
type turn struct {
	gate *gate
	ctx  context.Context // of the one request that it is for

	mu     sync.Mutex // guards what follows
	held   bool
	closed bool
}

// takeTurn waits for the turn of one who has entered.
func (g *gate) takeTurn(ctx context.Context) (*turn, error) {
	if _, err := g.begin(ctx); err != nil {
		return nil, err
	}
	return &turn{gate: g, ctx: ctx, held: true}, nil
}

// await calls f, which waits for a client. If that takes long, others have their turn.
func (t *turn) await(f func()) error {
	timer := time.AfterFunc(idle, func() { t.rest(false) })
	f()
	timer.Stop()
	t.mu.Lock()
	held := t.held || t.closed
	t.mu.Unlock()
	if held {
		return nil
	}
	select {
	case t.gate.work <- struct{}{}:
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held = !t.closed; t.closed {
		<-t.gate.work
	}
	return nil
}

// rest gives the turn away: until await is over, or for good.
func (t *turn) rest(closed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = t.closed || closed
	if t.held {
		t.held = false
		<-t.gate.work
	}
}

// begin waits for the turn of one who has entered.
func (g *gate) begin(ctx context.Context) (end func(), err error) {
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
