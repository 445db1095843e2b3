package guest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/host"
	"talon/host/plugin/meter"
	"talon/sdk/abi"
)

// instance is one running copy of a module. It belongs to the goroutine that
// took it from the pool.
type instance struct {
	module *Module
	engine *engine // that it holds; nil: none
	guest  api.Module
	memory api.Memory
	own    *memory
	fuel   api.MutableGlobal
	buffer api.Function

	functions [functions]api.Function // those that the manifest names
	idle      []string                // of them, those in which it always passes, as it is configured
	about     host.Description        // likewise
	asked     bool                    // the host, while it was configured

	addr     uint32 // of the guest's input buffer
	capacity uint32
	pages    uint32 // memory as last reported to metrics

	call   call
	stack  [1]uint64
	left   int64 // fuel after the last run
	view   abi.VerdictView
	rules  map[ruleKey]*rule
	last   lastVerdict
	values values
	ticks  uint64 // of the guest's monotonic clock
	random uint64 // state of the guest's random numbers
}

// firstBuffer is the input buffer that an instance is made with; most events
// fit.
const firstBuffer = 16 << 10

// newInstance instantiates and configures a module.
func newInstance(ctx context.Context, m *Module) (_ *instance, err error) {
	inst := &instance{
		module: m, ticks: 1, rules: make(map[ruleKey]*rule),
		values: values{make(map[string]prometheus.Counter), make(map[string]prometheus.Gauge)},
	}
	inst.call.inst, inst.call.bound = inst, m.bound
	inst.call.begin(ctx, nil, 0, 0)
	defer inst.call.end()
	defer func() {
		if err != nil {
			inst.close()
		}
	}()
	if inst.engine, err = m.engines.hold(ctx); err != nil {
		return nil, err
	}
	if inst.own, err = reserveFor(inst.engine.compiled, m.budgets.Memory); err != nil {
		return nil, err
	}

	// The start section runs here, on the fuel that the rewriter put in.
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	inst.call.making = inst.own.allocating(ctx)
	inst.guest, err = inst.engine.runtime.InstantiateModule(&inst.call, inst.engine.compiled, config)
	inst.call.making = nil
	if err != nil {
		return nil, inst.explain("did not start", err)
	}
	var ok bool
	if inst.fuel, ok = inst.guest.ExportedGlobal(meter.FuelExport).(api.MutableGlobal); !ok {
		return nil, fmt.Errorf("the metered module has no fuel")
	}
	inst.memory = inst.guest.Memory()
	inst.buffer = inst.guest.ExportedFunction(abi.ExportBuffer)
	for _, f := range m.functions {
		inst.functions[f] = inst.guest.ExportedFunction(f.export())
	}
	if initialize := inst.guest.ExportedFunction(abi.ExportInitialize); initialize != nil {
		if err := inst.run(initialize, startFuel, 0); err != nil {
			return nil, inst.explain("failed in "+abi.ExportInitialize, err)
		}
	}
	err = inst.configure(m.config)
	inst.asked, inst.call.ended = inst.call.asked, m.elapsed()
	return inst, err
}

// close ends the guest, which does not run, and frees its memory.
func (inst *instance) close() {
	if inst.guest != nil {
		inst.guest.Close(context.Background())
	}
	if inst.own != nil {
		inst.own.free()
	}
	if inst.engine != nil {
		inst.module.engines.drop()
	}
}

// run calls a function of the guest with one parameter, or none, on its own
// budget of fuel. The result is in inst.stack.
func (inst *instance) run(f api.Function, fuel int64, param uint64) error {
	inst.fuel.Set(uint64(fuel))
	inst.stack[0] = param
	err := f.CallWithStack(&inst.call, inst.stack[:])
	inst.left = int64(inst.fuel.Get())
	return err
}

// explain makes a failure of an error from the guest, and says why it failed.
func (inst *instance) explain(what string, err error) *Failure {
	f := &Failure{Cause: CauseTrap, what: what, err: brief{err}}
	var code exitError
	cause := causeOf(err)
	switch {
	case errors.As(err, &code):
		f.Cause, f.err = CauseExit, code
	case cause != "":
		f.Cause = cause
	case inst.fuel != nil && int64(inst.fuel.Get()) < 0:
		f.Cause, f.err = CauseFuel, errors.New("it ran out of fuel; is there an endless loop?")
	}
	if len(inst.call.line) > 0 && inst.call.firstLine == "" {
		inst.call.firstLine = string(inst.call.line)
	}
	if said := inst.call.firstLine; said != "" {
		f.err = fmt.Errorf("%w; it said %q", f.err, truncate(said, maxSaid))
	}
	return f
}

// maxSaid bounds what is repeated of what a guest said before it failed.
const maxSaid = 200

// brief is an error of the engine without its stack trace, which has a line for
// each function of the guest.
type brief struct{ error }

func (b brief) Error() string {
	first, _, _ := strings.Cut(b.error.Error(), "\n")
	return strings.TrimSuffix(first, " (recovered by wazero)")
}

func (b brief) Unwrap() error { return b.error }

// configure hands the configuration to the guest.
func (inst *instance) configure(config []byte) error {
	if err := inst.deliver(config, startFuel); err != nil {
		return err
	}
	configure := inst.guest.ExportedFunction(abi.ExportConfigure)
	if err := inst.run(configure, startFuel, uint64(len(config))); err != nil {
		return inst.explain("failed in "+abi.ExportConfigure, err)
	}
	if inst.stack[0] == 0 {
		return nil
	}
	answer, f := inst.answer(inst.stack[0])
	if f != nil {
		return f
	}
	configured, err := abi.DecodeConfigured(answer)
	if err != nil {
		return &Failure{Cause: CauseGarbage, what: "answered its configuration with garbage", err: err}
	}
	if configured.Failure != "" {
		return errors.New(configured.Failure)
	}
	inst.idle = configured.Idle
	if inst.about, err = describe(&configured.About); err != nil {
		return &Failure{Cause: CauseGarbage, what: "says something about the relay that it must not", err: err}
	}
	return nil
}

// deliver writes a message to the guest's buffer, and asks for a larger one
// first if it does not fit.
func (inst *instance) deliver(message []byte, fuel int64) error {
	if size := uint32(len(message)); size > inst.capacity || inst.addr == 0 {
		size = max(size, firstBuffer)
		if err := inst.run(inst.buffer, fuel, uint64(size)); err != nil {
			return inst.explain("failed in "+abi.ExportBuffer, err)
		}
		inst.addr, inst.capacity = uint32(inst.stack[0]), size
		if uint64(inst.addr)+uint64(size) > uint64(inst.memory.Size()) || inst.addr == 0 {
			inst.capacity, inst.addr = 0, 0
			return &Failure{Cause: CauseGarbage, what: "gave a buffer outside of its memory"}
		}
	}
	inst.memory.Write(inst.addr, message)
	return nil
}

// answer returns the message in the guest's memory that a result points to. It
// is valid until the guest runs again.
func (inst *instance) answer(result uint64) ([]byte, *Failure) {
	addr, length := abi.Unpack(result)
	if int64(length) > inst.module.budgets.Output {
		return nil, &Failure{Cause: CauseOutput, what: fmt.Sprintf("answered with %d bytes; the limit is %d", length, inst.module.budgets.Output)}
	}
	b, ok := inst.memory.Read(addr, length)
	if !ok {
		return nil, &Failure{Cause: CauseGarbage, what: "answered with an address outside of its memory"}
	}
	return b, nil
}

// ask calls a function of the guest with a request. The answer is in the guest's
// memory. A *Failure means that this instance must not be used again.
func (inst *instance) ask(f Func, request []byte) (answer []byte, fuel int64, err error) {
	budget := inst.module.budget(f) + int64(min(len(request), fuelBytes))*fuelPerByte
	if err := inst.deliver(request, budget); err != nil {
		return nil, inst.spent(budget), err
	}
	err = inst.run(inst.functions[f], budget, uint64(len(request)))
	fuel = inst.spent(budget)
	if err != nil {
		return nil, fuel, inst.explain("failed in "+f.export(), err)
	}
	if inst.stack[0] == 0 {
		return nil, fuel, nil
	}
	answer, failure := inst.answer(inst.stack[0])
	if failure != nil {
		return nil, fuel, failure
	}
	return answer, fuel, nil
}

// spent is what the last run has used of its budget.
func (inst *instance) spent(budget int64) int64 {
	return min(budget-inst.left, budget)
}

// rule asks the guest for a verdict. A *Failure means that this instance must
// not be used again; another error that the host failed.
func (inst *instance) rule(ctx context.Context, q *Question, ruling *host.Ruling) (fuel int64, err error) {
	c := &inst.call
	c.begin(ctx, q.Facts, q.Now, inst.module.budgets.Time)
	defer c.end()
	if c.begun = q.Ended; c.begun == 0 {
		c.begun = inst.module.elapsed()
	}
	answer, fuel, err := inst.ask(q.Function, q.Request)
	c.ended = inst.module.elapsed()
	if err != nil {
		return fuel, err
	}
	if inst.call.err != nil {
		return fuel, inst.call.err
	}
	if l := &inst.last; l.is(q.Function, q.Source, answer) {
		l.rule.count.Inc()
		*ruling = l.ruling
		return fuel, nil
	}
	if err := inst.view.Decode(answer); err != nil {
		return fuel, &Failure{Cause: CauseGarbage, what: "answered with garbage", err: err}
	}
	r, rule, failure := inst.ruling(q.Function, &inst.view, q.Source)
	if failure != nil {
		return fuel, failure
	}
	rule.count.Inc()
	inst.last.keep(q.Function, answer, r, rule)
	*ruling = r
	return fuel, nil
}
