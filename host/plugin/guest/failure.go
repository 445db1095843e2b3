package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"talon/host"
)

// Cause says why a module failed: the closed set of labels for metrics.
type Cause string

const (
	CauseTrap    Cause = "trap"    // unreachable, out of bounds, stack overflow, a panic in the guest
	CauseFuel    Cause = "fuel"    // spent its budget
	CauseExit    Cause = "exit"    // called proc_exit
	CauseTime    Cause = "time"    // took longer than its budget
	CauseReads   Cause = "reads"   // read more often than its budget allows
	CauseBytes   Cause = "bytes"   // moved more bytes by host functions
	CauseCalls   Cause = "calls"   // called host functions more often
	CauseHost    Cause = "host"    // misused a host function
	CauseOutput  Cause = "output"  // an answer longer than the cap
	CauseGarbage Cause = "garbage" // an answer that is no verdict
	CauseStart   Cause = "start"   // no new instance could be made
)

var causes = []Cause{
	CauseTrap, CauseFuel, CauseTime, CauseReads, CauseBytes, CauseCalls, CauseExit, CauseHost, CauseOutput, CauseGarbage, CauseStart,
}

// Failure reports that a module failed, and not the host.
type Failure struct {
	Cause Cause

	what string // completes "the module …"
	err  error
}

func (f *Failure) Error() string {
	if f.err == nil {
		return "the module " + f.what
	}
	return fmt.Sprintf("the module %s: %v", f.what, f.err)
}

func (f *Failure) Unwrap() error { return f.err }

// AsFailure returns the failure in err, nil if there is none.
func AsFailure(err error) *Failure {
	if err == nil {
		return nil // the usual decision allocates nothing
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// Panics of host functions: they end the call that is under way.
var (
	errFuel      = errors.New("its fuel is spent") // reported as any other lack of fuel
	errTime      = errors.New("it took longer than its budget of time")
	errReads     = errors.New("it read store, purgatory and repositories more often than its budget allows")
	errBytes     = errors.New("it moved more bytes by host functions than its budget allows")
	errHostCalls = errors.New("it called host functions more often than its budget allows")
	errRandom    = errors.New("it took too many random bytes")
	errWait      = errors.New("a module cannot wait")
	errFilter    = errors.New("the filter of store.query is wrong")
	errPointer   = errors.New("a host function was given an address outside of the memory")
	errArgument  = errors.New("a host function was given a value that it does not take")
)

// endings are the causes of the panics above.
var endings = []struct {
	err   error
	cause Cause
}{
	{errTime, CauseTime}, {errReads, CauseReads}, {errBytes, CauseBytes}, {errHostCalls, CauseCalls}, {errRandom, CauseHost},
	{errWait, CauseHost}, {errFilter, CauseHost}, {errPointer, CauseHost}, {errArgument, CauseHost},
}

// causeOf returns the cause of a panic of a host function, empty for another error.
func causeOf(err error) Cause {
	for _, e := range endings {
		if errors.Is(err, e.err) {
			return e.cause
		}
	}
	return ""
}

// exitError is the panic of proc_exit.
type exitError uint32

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", uint32(e)) }

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
// A *[Failure] says that the module failed; another error that ctx was done or that
// the host could not read what the module wanted to know: nothing was decided.
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
	ruling, fuel, err := inst.rule(ctx, f, &question{request, facts, now, source})
	metrics.seconds.Observe(inst.call.clock.since.Sub(inst.call.clock.begun).Seconds())
	metrics.fuel.Observe(float64(fuel))
	if AsFailure(err) != nil {
		m.discard(inst)
		m.pool.giveUp()
		m.keepSpare()
		return host.Ruling{}, fuel, m.failed(err)
	}
	m.slow(&inst.call.clock, len(request))
	inst.report(inst.memory.Size())
	m.pool.put(inst)
	return ruling, fuel, err
}

// slowEvery is how often it is said that a module is slow.
const slowEvery = 10 * time.Second

// slow warns of a module whose calls take most of their time.
func (m *Module) slow(clock *stopwatch, request int) {
	limit := m.time(request)
	if !clock.exceeds(clock.spent, limit/2) {
		return
	}
	n, now := m.slowCalls.Add(1), m.clock().UnixNano()
	if last := m.slowSaid.Load(); now-last >= int64(slowEvery) && m.slowSaid.CompareAndSwap(last, now) {
		m.slowCalls.Add(-n)
		m.log.Warn("plugin is slow", "module", m.name, "took", clock.charged(clock.spent), "budget", limit, "calls", n)
	}
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
