package guest

import (
	"context"
	"fmt"
	"time"

	"talon/host"
)

// call is the call into a guest that is under way. It is the context that
// wazero hands to host functions, so that they find what belongs to this call
// without a look-up and without an allocation: a host function asserts its
// context back to a *call.
//
// The embedded context is the caller's, and only for the time of the call.
type call struct {
	context.Context

	inst   *instance
	bound  context.Context // of the instance; see Done
	making context.Context // while the instance is made; see Value

	facts  host.Facts
	waiter host.Waiter // the facts, if they are one
	now    int64       // unix seconds
	line   []byte      // unfinished line of fd_write
	guard  guard
	begun  time.Duration // of Module.elapsed, when the guest began to answer
	ended  time.Duration // when it had answered last
	used
}

// used is what has been used of the limits of one call, and what came of it.
type used struct {
	asked      bool // the host, for more than WASI has
	hostCalls  int
	reads      int
	bytes      int
	randomness int // bytes given out
	logLines   int
	firstLine  string // of what was logged, to explain a failure

	unfit *unfitAnswer // whose size the guest has got; nil: none
	err   error        // why the host could not answer
}

// Done and Err tell wazero when to stop the guest, if the engine looks: when the
// context of the instance is done. It may ask at any time, from a goroutine of
// its own, so that the caller's context, which changes, is none of its business.

func (c *call) Done() <-chan struct{} { return c.bound.Done() }
func (c *call) Err() error            { return c.bound.Err() }

// Value tells wazero what a context may ask of it. It looks at each call, and finds only
// what was set for the time in which the instance is made: the caller's contexts, of which
// there may be many, are not walked through.
func (c *call) Value(key any) any {
	if c.making == nil {
		return nil
	}
	return c.making.Value(key)
}

// begin starts a call. Fuel bounds its code, and limit the time of its reads. Zero is no limit.
func (c *call) begin(ctx context.Context, facts host.Facts, now int64, limit time.Duration) {
	c.Context, c.facts, c.now, c.line, c.used = ctx, facts, now, c.line[:0], used{}
	c.waiter, _ = facts.(host.Waiter)
	c.guard = guard{limit: limit}
}

func (c *call) end() {
	if len(c.line) > 0 {
		c.log(infoLevel, string(c.line))
	}
	c.Context, c.facts, c.waiter, c.unfit = context.Background(), nil, nil, nil
}

// enter counts a call of a host function that costs this much fuel, and ends the
// guest's call when there are too many.
func (c *call) enter(fuel int64) {
	if c.hostCalls++; c.hostCalls > c.inst.module.budgets.HostCalls {
		panic(errHostCalls)
	}
	c.charge(fuel)
}

// charge takes fuel from the guest for what the host does.
func (c *call) charge(fuel int64) {
	if c.inst.fuel == nil {
		return // the start section runs
	}
	left := int64(c.inst.fuel.Get()) - fuel
	c.inst.fuel.Set(uint64(left))
	if left < 0 {
		panic(errFuel)
	}
}

// chargeBytes counts bytes that a host function moves, and takes fuel for them.
func (c *call) chargeBytes(n int) {
	if c.bytes += n; c.bytes > c.inst.module.budgets.Bytes {
		panic(errBytes)
	}
	c.charge(int64(n) / bytesPerFuel)
}

// read does one read of store, purgatory or repositories for the guest. It keeps a failure
// of the host for the caller of the guest, and the guest gets Unavailable. A read that
// meets the guard ends the guest's call.
func (c *call) read(what string, f func(ctx context.Context) error) bool {
	c.countRead()
	err := c.guard.read(c.Context, c.facts, f)
	if err == errTime {
		panic(errTime)
	}
	if err != nil {
		c.unavailable(fmt.Errorf("%s: %w", what, err))
	}
	return err == nil
}

// countRead counts a read, and ends the guest's call when there are too many.
func (c *call) countRead() {
	if c.reads++; c.reads > c.inst.module.budgets.Reads {
		panic(errReads)
	}
}

// wait runs f, which may block, without counting the caller among those who decide.
func (c *call) wait(f func()) {
	if c.waiter != nil {
		c.waiter.Wait(f)
		return
	}
	f()
}

// unavailable keeps the first reason why the host could not answer.
func (c *call) unavailable(err error) { c.err = cmpErr(c.err, err) }

// cmpErr returns the first error.
func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
