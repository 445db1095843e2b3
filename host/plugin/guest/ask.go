package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host"
)

// Question is what a module is asked for a verdict about.
type Question struct {
	Function Func
	Request  []byte     // of [Request]
	Facts    host.Facts // nil: the store cannot be read
	Now      int64      // unix seconds
	Source   string     // a label of metrics: client, import or sync

	// Ended is when the module ended that was asked just before, on the clock of modules. The
	// next one begins then, and the clock is not read again; zero: none was. Ask sets it.
	Ended time.Duration
}

// Rule is [Module.Ask] for one module alone.
func (m *Module) Rule(ctx context.Context, f Func, request []byte, facts host.Facts, now int64, source string) (host.Ruling, int64, error) {
	var ruling host.Ruling
	q := Question{Function: f, Request: request, Facts: facts, Now: now, Source: source}
	fuel, err := m.Ask(ctx, &q, &ruling)
	return ruling, fuel, err
}

// Ask asks the module for a verdict, and returns the fuel that it spent. The ruling is
// set only if there is no error.
//
// A *[Failure] says that the module failed; another error that ctx was done or that
// the host could not read what the module wanted to know: nothing was decided.
func (m *Module) Ask(ctx context.Context, q *Question, ruling *host.Ruling) (fuel int64, err error) {
	f := q.Function
	if !f.policy() || !m.Calls(f) {
		return 0, fmt.Errorf("plugin %s does not answer %s", m.name, f)
	}
	metrics := &m.metrics.functions[f]
	metrics.calls.Inc()
	inst := m.pool.tryGet()
	if inst == nil {
		q.Ended = 0 // who waits has to look at the clock
		if inst, err = m.waitForInstance(ctx, q.Facts); err != nil {
			return 0, err
		}
	}
	answered := false
	defer func() {
		if !answered { // the host panics, and nobody knows what the instance was doing
			m.discard(inst)
			m.pool.giveUp()
		}
	}()
	fuel, err = inst.rule(ctx, q, ruling)
	answered = true
	q.Ended = inst.call.ended
	metrics.seconds.Observe((inst.call.ended - inst.call.begun).Seconds())
	metrics.fuel.Observe(float64(fuel))
	if AsFailure(err) != nil {
		m.discard(inst)
		m.pool.giveUp()
		m.keepSpare()
		return fuel, m.failed(err)
	}
	inst.report(inst.memory.Size())
	m.pool.put(inst)
	return fuel, err
}

// waitForInstance returns an instance that has come back, or a new one.
func (m *Module) waitForInstance(ctx context.Context, facts host.Facts) (*instance, error) {
	wait := atOnce
	if waiter, ok := facts.(host.Waiter); ok {
		wait = waiter.Wait
	}
	inst, err := m.pool.get(ctx, wait)
	if err != nil {
		return nil, fmt.Errorf("wait for an instance: %w", err)
	}
	if inst == nil {
		if inst, err = m.newInstance(ctx); err != nil {
			m.pool.giveUp()
			if errors.As(err, new(*reloadError)) {
				return nil, err
			}
			return nil, m.failed(&Failure{Cause: CauseStart, what: "could not be started again", err: err})
		}
	}
	return inst, nil
}

// keepSpare makes an instance in the place of one that failed, so that no decision waits
// for it; one at a time.
func (m *Module) keepSpare() {
	if !m.sparing.CompareAndSwap(false, true) {
		return
	}
	if !m.pool.reserve() {
		m.sparing.Store(false)
		return
	}
	go func() {
		defer m.sparing.Store(false)
		inst, err := m.newInstance(context.Background())
		if err != nil {
			m.pool.giveUp() // the next decision says why
			return
		}
		m.pool.put(inst)
	}()
}

// failed counts a failure of the module and returns the error as it was given. It logs all
// failures but those by time: many come at once, and the caller sums them up.
func (m *Module) failed(err error) error {
	f := AsFailure(err)
	if f == nil {
		return err
	}
	m.metrics.failures[f.Cause].Inc()
	if f.Cause != CauseTime && m.logRate.allow() {
		m.log.Error("plugin failed", "module", m.name, "cause", string(f.Cause), "err", truncate(err.Error(), 1<<10))
	}
	return err
}
