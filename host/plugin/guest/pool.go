package guest

import (
	"context"
)

// pool hands out instances to one caller each. Every place of it is in one of
// idle (an instance waits), vacant (one may be made), or with a caller.
type pool struct {
	idle   chan *instance
	vacant chan struct{}
}

func newPool(size int) *pool {
	p := &pool{idle: make(chan *instance, size), vacant: make(chan struct{}, size)}
	for range size {
		p.vacant <- struct{}{}
	}
	return p
}

// get returns an idle instance, or nil if the caller may make one, which it then
// puts or gives up. It waits for either until ctx is done.
func (p *pool) get(ctx context.Context) (*instance, error) {
	select {
	case inst := <-p.idle:
		return inst, nil
	default:
	}
	select {
	case inst := <-p.idle:
		return inst, nil
	case <-p.vacant:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pool) put(inst *instance) { p.idle <- inst }

// giveUp says that the caller's place holds no instance.
func (p *pool) giveUp() { p.vacant <- struct{}{} }

// drain takes every place, so that no instance is in use, for good. It returns
// false if ctx was done before.
func (p *pool) drain(ctx context.Context) bool {
	for range cap(p.idle) {
		if _, err := p.get(ctx); err != nil {
			return false
		}
	}
	return true
}
