package guest

import (
	"context"
	"errors"
	"fmt"
)

// Reducer is an instance that is not shared: a strategy or a throttle keeps what
// it knows in its memory. It serves one call at a time.
type Reducer struct {
	module *Module
	inst   *instance // nil after a failure, or Close
	answer []byte
}

// NewReducer makes an instance that has seen nothing yet.
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
// A *[Failure] ends the reducer: what it knew is lost. A fact that the host could
// not read is no error here: the module was told so, and has changed its state by
// what it knew.
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
	start := m.clock()
	answer, fuel, err = r.inst.reduce(ctx, f, request, now)
	metrics.seconds.Observe(m.clock().Sub(start).Seconds())
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
	inst.call.begin(ctx, nil, now, inst.module.time(len(request)))
	defer inst.call.end()
	return inst.ask(f, request)
}
