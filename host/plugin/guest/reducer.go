package guest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// Reducer is an instance that is not shared: a strategy or a throttle keeps its
// state in its memory. It serves one call at a time.
type Reducer struct {
	module *Module
	inst   *instance // nil after a failure, or Close
	answer []byte
}

// NewReducer makes an instance that has had no calls.
func (m *Module) NewReducer(ctx context.Context) (*Reducer, error) {
	if inst := m.unusedInstance(); inst != nil {
		return &Reducer{module: m, inst: inst}, nil
	}
	inst, err := m.newInstance(ctx)
	if errors.As(err, new(*reloadError)) {
		return nil, err
	}
	if err != nil {
		return nil, m.failed(&Failure{Cause: CauseStart, what: "could not be started", err: err})
	}
	return &Reducer{module: m, inst: inst}, nil
}

// unusedInstance takes the instance that was made when the module was loaded, nil if it is gone
// or may have had calls.
func (m *Module) unusedInstance() *instance {
	if slices.ContainsFunc(m.functions, Func.policy) {
		return nil
	}
	inst := m.pool.tryGet()
	if inst != nil {
		m.pool.giveUp() // its place: it does not come back
	}
	return inst
}

// errEnded is returned by a reducer that has failed or was closed.
var errEnded = errors.New("the reducer has ended")

// Call hands a request to the module and returns its answer, nil for none, which
// is valid until the next call. now is in unix seconds.
//
// A *[Failure] ends the reducer: its state is lost. If the host could not read a fact, that
// is not an error here: the module got Unavailable, and has changed its state without the
// fact.
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
