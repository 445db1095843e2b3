package guest

import (
	"context"
	"fmt"

	"talon/host"
)

// question is what a module is asked.
type question struct {
	request []byte
	facts   host.Facts
	now     int64
	source  string
}

// Rule asks the module for a verdict. The request comes from [Request], now is in
// unix seconds, and source is a label of metrics: client, import or sync. Without
// facts the store cannot be read.
//
// A *[Failure] says that the module did not do its part; another error that ctx
// was done or that the host could not read what the module wanted to know:
// nothing was decided.
func (m *Module) Rule(ctx context.Context, f Func, request []byte, facts host.Facts, now int64, source string) (host.Ruling, int64, error) {
	if !f.policy() || !m.Calls(f) {
		return host.Ruling{}, 0, fmt.Errorf("plugin %s does not answer %s", m.name, f)
	}
	metrics := &m.metrics.functions[f]
	metrics.calls.Inc()
	wait := atOnce
	if waiter, ok := facts.(host.Waiter); ok {
		wait = waiter.Wait
	}
	inst, err := m.pool.get(ctx, wait)
	if err != nil {
		return host.Ruling{}, 0, fmt.Errorf("wait for an instance: %w", err)
	}
	if inst == nil {
		if inst, err = m.replace(ctx); err != nil {
			m.pool.giveUp()
			return host.Ruling{}, 0, m.failed(err)
		}
	}
	start := m.clock()
	ruling, fuel, err := inst.rule(ctx, f, &question{request, facts, now, source})
	metrics.seconds.Observe(m.clock().Sub(start).Seconds())
	metrics.fuel.Observe(float64(fuel))
	switch {
	case err == nil:
		if m.shaken.Load() {
			m.shaken.Store(false)
			m.breaker.worked()
		}
	case AsFailure(err) != nil:
		m.discard(inst)
		m.pool.giveUp()
		return host.Ruling{}, fuel, m.failed(err)
	}
	inst.report(inst.memory.Size())
	m.pool.put(inst)
	return ruling, fuel, err
}

// replace makes an instance for a vacant place, unless the breaker is open.
func (m *Module) replace(ctx context.Context) (*instance, error) {
	if m.shaken.Load() && !m.breaker.allow(m.clock()) {
		return nil, &Failure{Cause: CauseBreaker, what: "failed too often and rests"}
	}
	inst, err := m.newInstance(ctx)
	if err != nil {
		return nil, &Failure{Cause: CauseStart, what: "could not be started again", err: err}
	}
	return inst, nil
}

// failed counts a failure of the module and returns the error as it was given.
func (m *Module) failed(err error) error {
	f := AsFailure(err)
	if f == nil {
		return err
	}
	m.metrics.failures[f.Cause].Inc()
	if f.Cause != CauseBreaker {
		m.breaker.failed()
		m.shaken.Store(true)
		if m.logRate.take() {
			m.log.Error("plugin failed", "module", m.name, "cause", string(f.Cause), "err", cut(err.Error(), 1<<10))
		}
	}
	return err
}
