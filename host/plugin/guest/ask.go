package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"talon/host"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// Cause says why a module failed: the closed set of labels for metrics.
type Cause string

const (
	CauseTrap    Cause = "trap"    // unreachable, out of bounds, stack overflow, a panic in the guest
	CauseFuel    Cause = "fuel"    // spent its budget
	CauseExit    Cause = "exit"    // called proc_exit
	CauseTime    Cause = "time"    // its reads met the guard: a host function hangs, or the machine is busy
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
	errTime      = errors.New("its reads took longer than its budget of time; the machine is busy, or a host function hangs")
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

// Reducer is an instance that is not shared: a strategy or a throttle keeps its
// state in its memory. It serves one call at a time.
type Reducer struct {
	module *Module
	inst   *instance // nil after a failure, or Close
	answer []byte
}

// NewReducer makes an instance that has had no calls.
func (m *Module) NewReducer(ctx context.Context) (*Reducer, error) {
	inst, err := m.newInstance(ctx)
	if err != nil {
		return nil, m.failed(&Failure{Cause: CauseStart, what: "could not be started", err: err})
	}
	return &Reducer{module: m, inst: inst}, nil
}

// errEnded is returned by a reducer that has failed or was closed.
var errEnded = errors.New("the reducer has ended")

// Call hands a request to the module and returns its answer, nil for none, which
// is valid until the next call. now is in unix seconds.
//
// A *[Failure] ends the reducer: its state is lost. A fact that the host could
// not read is no error here: the module got Unavailable, and has changed its
// state without the fact.
func (r *Reducer) Call(ctx context.Context, f Func, request []byte, now int64) (answer []byte, fuel int64, err error) {
	m := r.module
	if f.policy() || !m.Calls(f) {
		return nil, 0, fmt.Errorf("plugin %s does not answer %s", m.name, f)
	}
	if r.inst == nil {
		return nil, 0, errEnded
	}
	metrics := &m.metrics.functions[f]
	metrics.calls.Inc()
	start := m.elapsed()
	answer, fuel, err = r.inst.reduce(ctx, f, request, now)
	metrics.seconds.Observe((m.elapsed() - start).Seconds())
	metrics.fuel.Observe(float64(fuel))
	if err != nil {
		r.Close()
		return nil, fuel, m.failed(err)
	}
	r.inst.report(r.inst.memory.Size())
	if answer == nil {
		return nil, fuel, nil
	}
	r.answer = append(r.answer[:0], answer...)
	return r.answer, fuel, nil
}

// Memory returns the bytes of the instance's memory, 0 if it has ended.
func (r *Reducer) Memory() int64 {
	if r.inst == nil {
		return 0
	}
	return int64(r.inst.memory.Size())
}

// Close closes the instance. It may be called more than once.
func (r *Reducer) Close() {
	if r.inst != nil {
		r.module.discard(r.inst)
		r.inst = nil
	}
}

func (inst *instance) reduce(ctx context.Context, f Func, request []byte, now int64) ([]byte, int64, error) {
	inst.call.begin(ctx, nil, now, inst.module.budgets.Time)
	defer inst.call.end()
	return inst.ask(f, request)
}

// stepLimits are what the probes of a strategy say that the host carries out.
var stepLimits = abi.StepLimits{
	Connections: 100, Subscriptions: 20, Filters: 10, Values: 500, Historics: 4, Timers: 100, Actions: 1000,
	Bytes: defaultReducerOut,
}

// reducerProbes are those of strategies and throttles.
func reducerProbes(list *[functions][]probe) {
	const now = int64(manifest.VectorNow) * 1000
	one := func(f Func, name string, request []byte, decode func([]byte) error) {
		list[f] = append(list[f], probe{name, request, decode})
	}
	repository := "30617:" + strings.Repeat("ab", 32) + ":probe"

	step := func(name string, input abi.Input) {
		one(Step, name, abi.AppendStep(nil, now, input), func(b []byte) error {
			_, err := abi.DecodeActions(b, abi.ActionLimits{
				Actions: int(stepLimits.Actions), Filters: int(stepLimits.Filters), Values: int(stepLimits.Values), AllValues: 100_000,
			})
			return err
		})
	}
	step("the world as it is", &abi.StepInit{
		Seed: 1, Limits: stepLimits, Own: []string{"wss://own.example.com"},
		Relays: []abi.RelayState{{URL: "wss://relay.example.com", Bootstrap: true, Wanted: true, Connected: true, LastConnected: now - 1000}},
		Repositories: []abi.KnownRepository{{
			Address: repository, Level: abi.SyncLevelFull, Relays: []string{"wss://relay.example.com"}, Roots: [][32]byte{{1}},
		}},
	})
	step("a timer", &abi.TimerFired{ID: "probe", At: now})

	domain := abi.Subject{Kind: abi.SubjectDomain, Name: "git.example.com", Ages: []uint32{100, 2000}}
	one(ThrottleDelay, "a first delay", abi.AppendDelayRequest(nil, &abi.DelayRequest{
		Now: now, Subject: abi.Subject{Kind: abi.SubjectRepository, Name: repository}, Origin: abi.OriginClient, EventKind: announcement,
	}), func(b []byte) error { _, err := abi.DecodeDelayAnswer(b); return err })
	one(ThrottleAdmit, "a start", abi.AppendThrottleAdmitRequest(nil, &abi.ThrottleAdmitRequest{
		Now: now, Subject: domain, Repository: repository, AllInFlight: 3,
	}), func(b []byte) error { _, err := abi.DecodeThrottleAdmitAnswer(b); return err })
	failing := domain
	failing.Failures, failing.FailingSince = 3, now-60_000
	one(ThrottleAfter, "a failure", abi.AppendAfterRequest(nil, &abi.AfterRequest{
		Now: now, Subject: failing, Outcome: abi.OutcomeRateLimited, Repository: repository, Status: 429, RetryAfter: 30_000, Took: 120,
	}), func(b []byte) error { _, err := abi.DecodeAfterAnswer(b); return err })
	waiting := []abi.Waiting{{Repository: repository, Since: now - 5000, Missing: 2, URLs: 1}}
	one(ThrottlePick, "a choice", abi.AppendPickRequest(nil, &abi.PickRequest{Now: now, Subject: domain, Waiting: waiting}),
		func(b []byte) error { _, err := abi.DecodePickAnswer(b, len(waiting)); return err })
	one(ThrottleTick, "a tick", abi.AppendTickRequest(nil, &abi.TickRequest{
		Now: now, Telemetry: abi.Telemetry{Interval: 5000, CPU: 0.5, Memory: 1 << 30, Connections: 100, Queue: 10, QueueLimit: 1000},
	}), func(b []byte) error { _, err := abi.DecodeTickAnswer(b); return err })
}
