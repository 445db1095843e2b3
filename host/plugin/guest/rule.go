package guest

import (
	"context"
	"fmt"
	"time"

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
		if inst, err = m.newInstance(ctx); err != nil {
			m.pool.giveUp()
			return host.Ruling{}, 0, m.failed(&Failure{Cause: CauseStart, what: "could not be started again", err: err})
		}
	}
	start := m.clock()
	ruling, fuel, err := inst.rule(ctx, f, &question{request, facts, now, source})
	metrics.seconds.Observe(m.clock().Sub(start).Seconds())
	metrics.fuel.Observe(float64(fuel))
	if AsFailure(err) != nil {
		m.discard(inst)
		m.pool.giveUp()
		m.spare()
		return host.Ruling{}, fuel, m.failed(err)
	}
	m.slow(inst.call.clock.spent, len(request))
	inst.report(inst.memory.Size())
	m.pool.put(inst)
	return ruling, fuel, err
}

// slowEvery is how often it is said that a module is slow.
const slowEvery = 10 * time.Second

// slow warns of a module whose calls take most of their time.
func (m *Module) slow(took time.Duration, request int) {
	most := m.time(request)
	if took < most/2 {
		return
	}
	n, now := m.slowCalls.Add(1), m.clock().UnixNano()
	if last := m.slowSaid.Load(); now-last >= int64(slowEvery) && m.slowSaid.CompareAndSwap(last, now) {
		m.slowCalls.Add(-n)
		m.log.Warn("plugin is slow", "module", m.name, "took", took, "budget", most, "calls", n)
	}
}

// spare makes an instance in the place of one that failed, so that no decision waits
// for it; one at a time.
func (m *Module) spare() {
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

// failed counts a failure of the module and returns the error as it was given.
func (m *Module) failed(err error) error {
	f := AsFailure(err)
	if f == nil {
		return err
	}
	m.metrics.failures[f.Cause].Inc()
	if m.logRate.take() {
		m.log.Error("plugin failed", "module", m.name, "cause", string(f.Cause), "err", cut(err.Error(), 1<<10))
	}
	return err
}
