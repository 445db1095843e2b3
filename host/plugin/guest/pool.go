package guest

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// surplusTime is how long an instance beyond those that are kept may be idle.
	surplusTime = time.Minute

	// maxQueue is how many callers may wait for an instance.
	maxQueue = 256
)

// pool hands out instances to one caller each. A place holds an instance that is
// idle or with a caller, or one that is being made.
type pool struct {
	max   int // places
	close func(*instance)
	clock func() time.Duration // that instances are idle by

	mu      sync.Mutex  // guards the fields below
	keep    int         // idle instances that are not closed
	emptied func()      // called when trim has closed the last instance; nil: nobody
	idle    []*instance // the last used at the end
	slots   int         // that are taken
	waiting list.List   // of *turn, in the order in which they came
	trimmer *time.Timer
	drained chan struct{} // closed when no place is taken any more; nil: the pool is in use
}

// Errors of a caller that gets no instance.
var (
	errClosed = errors.New("the module is closed")
	errBusy   = fmt.Errorf("%d others wait for one", maxQueue)
)

// waiter is a caller that waits.
type waiter struct {
	came chan *instance // receives one, or nil for a place
	over bool           // it has been given something
}

func newPool(keep, limit int, close func(*instance), clock func() time.Duration) *pool {
	return &pool{keep: keep, max: limit, close: close, clock: clock}
}

// tryGet returns an idle instance, nil if there is none.
func (p *pool) tryGet() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeIdle()
}

// takeIdle is tryGet. REQUIRES: mu.
func (p *pool) takeIdle() *instance {
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	inst := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return inst
}

// get returns an idle instance, or nil if the caller may make one, which it then
// puts or gives up. It waits for either until ctx is done, within wait.
func (p *pool) get(ctx context.Context, wait func(func())) (*instance, error) {
	p.mu.Lock()
	if inst := p.takeIdle(); inst != nil {
		p.mu.Unlock()
		return inst, nil
	}
	if p.drained != nil {
		p.mu.Unlock()
		return nil, errClosed
	}
	if p.slots < p.max {
		p.slots++
		p.mu.Unlock()
		return nil, nil
	}
	if p.waiting.Len() == maxQueue {
		p.mu.Unlock()
		return nil, errBusy
	}
	t := &waiter{came: make(chan *instance, 1)}
	at := p.waiting.PushBack(t)
	p.mu.Unlock()
	var inst *instance
	var err error
	wait(func() {
		select {
		case inst = <-t.came:
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	if err == nil {
		return inst, nil
	}
	p.mu.Lock()
	given := t.over
	if !given {
		p.waiting.Remove(at)
	}
	p.mu.Unlock()
	if !given {
		return nil, err
	}
	if inst := <-t.came; inst != nil {
		p.put(inst)
	} else {
		p.giveUp()
	}
	return nil, err
}

// next returns who has waited the longest, nil if nobody waits. REQUIRES: mu.
func (p *pool) next() *waiter {
	first := p.waiting.Front()
	if first == nil {
		return nil
	}
	t := p.waiting.Remove(first).(*waiter)
	t.over = true
	return t
}

// put takes an instance back.
func (p *pool) put(inst *instance) {
	p.mu.Lock()
	switch t := p.next(); {
	case t != nil:
		t.came <- inst
	case p.drained != nil:
		p.mu.Unlock()
		p.close(inst)
		p.giveUp()
		return
	default:
		p.idle = append(p.idle, inst)
		p.awaitSurplus()
	}
	p.mu.Unlock()
}

// awaitSurplus has instances closed that are idle for long, if there are more than are kept.
// REQUIRES: mu.
func (p *pool) awaitSurplus() {
	if len(p.idle) > p.keep && p.trimmer == nil {
		p.trimmer = time.AfterFunc(surplusTime, p.trim)
	}
}

// keepNone has all instances closed that are idle for long, and emptied called after the last.
func (p *pool) keepNone(emptied func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep, p.emptied = 0, emptied
	p.awaitSurplus()
}

// giveUp says that the caller's place holds no instance.
func (p *pool) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.next(); t != nil {
		t.came <- nil
		return
	}
	p.free(1)
}

// free frees places. REQUIRES: mu.
func (p *pool) free(n int) {
	if p.slots -= n; n > 0 && p.slots == 0 && p.drained != nil {
		close(p.drained)
	}
}

// reserve takes a place for an instance that nobody waits for, if none is idle and
// there is room.
func (p *pool) reserve() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) > 0 || p.slots == p.max || p.drained != nil {
		return false
	}
	p.slots++
	return true
}

// trim closes instances beyond those that are kept that have been idle for long.
func (p *pool) trim() {
	p.mu.Lock()
	p.trimmer = nil
	n, now := 0, p.clock()
	for len(p.idle)-n > p.keep && now-p.idle[n].call.ended >= surplusTime {
		n++
	}
	surplus := slices.Clone(p.idle[:n])
	p.idle = append(p.idle[:0], p.idle[n:]...)
	clear(p.idle[len(p.idle):cap(p.idle)])
	if len(p.idle) > p.keep {
		p.trimmer = time.AfterFunc(surplusTime-(now-p.idle[0].call.ended), p.trim)
	}
	p.mu.Unlock()
	for _, inst := range surplus {
		p.close(inst)
		p.giveUp()
	}
	p.mu.Lock()
	empty := p.slots == 0 && p.emptied != nil
	p.mu.Unlock()
	if empty {
		p.emptied()
	}
}

// drain closes every instance, as soon as it is not in use. It returns false if ctx
// was done before: what is in use then is closed by who uses it.
func (p *pool) drain(ctx context.Context) bool {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	if p.trimmer != nil {
		p.trimmer.Stop()
		p.trimmer = nil
	}
	if p.drained == nil {
		p.drained = make(chan struct{})
		if p.slots == 0 {
			close(p.drained)
		}
	}
	p.mu.Unlock()
	for _, inst := range idle {
		p.close(inst)
		p.giveUp()
	}
	select {
	case <-p.drained:
		return true
	case <-ctx.Done():
		return false
	}
}
