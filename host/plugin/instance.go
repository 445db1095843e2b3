package plugin

import (
	"context"
	"errors"
	"fmt"

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
	guest  api.Module
	memory api.Memory
	fuel   api.MutableGlobal
	buffer api.Function
	admit  api.Function

	addr     uint32 // of the guest's input buffer
	capacity uint32
	pages    uint32 // memory as last reported to metrics

	call   call
	stack  [1]uint64
	view   abi.VerdictView
	rules  map[ruleKey]*rule
	ticks  uint64 // of the guest's monotonic clock
	random uint64 // state of the guest's random numbers
}

// firstBuffer is the input buffer that an instance is made with; most events
// fit.
const firstBuffer = 16 << 10

// newInstance instantiates and configures a module.
func newInstance(ctx context.Context, m *Module) (_ *instance, err error) {
	inst := &instance{module: m, ticks: 1, rules: make(map[ruleKey]*rule)}
	inst.call.inst = inst
	inst.call.begin(ctx, nil, 0)
	defer inst.call.end()
	defer func() {
		if err != nil && inst.guest != nil {
			inst.guest.Close(context.Background())
		}
	}()

	// The start section runs here, on the fuel that the rewriter put in.
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	inst.guest, err = m.runtime.InstantiateModule(&inst.call, m.compiled, config)
	if err != nil {
		return nil, inst.explain("did not start", err)
	}
	var ok bool
	if inst.fuel, ok = inst.guest.ExportedGlobal(meter.FuelExport).(api.MutableGlobal); !ok {
		return nil, fmt.Errorf("the metered module has no fuel")
	}
	inst.memory = inst.guest.Memory()
	inst.buffer = inst.guest.ExportedFunction(abi.ExportBuffer)
	inst.admit = inst.guest.ExportedFunction(abi.ExportAdmit)
	if initialize := inst.guest.ExportedFunction(abi.ExportInitialize); initialize != nil {
		if err := inst.run(initialize, startFuel, 0); err != nil {
			return nil, inst.explain("failed in "+abi.ExportInitialize, err)
		}
	}
	return inst, inst.configure(m.config)
}

// run calls a function of the guest with one parameter, or none, on its own
// budget of fuel. The result is in inst.stack.
func (inst *instance) run(f api.Function, fuel int64, param uint64) error {
	inst.fuel.Set(uint64(fuel))
	inst.stack[0] = param
	return f.CallWithStack(&inst.call, inst.stack[:])
}

// explain makes a failure of an error from the guest, and says why it failed.
func (inst *instance) explain(what string, err error) *failure {
	f := &failure{cause: causeTrap, what: what, err: err}
	var code exitError
	switch {
	case errors.As(err, &code):
		f.cause, f.err = causeExit, code
	case errors.Is(err, errHostLimit), errors.Is(err, errPointer), errors.Is(err, errFilter), errors.Is(err, errWait):
		f.cause = causeHost
	case inst.fuel != nil && int64(inst.fuel.Get()) < 0:
		f.cause, f.err = causeFuel, errors.New("it ran out of fuel; is there an endless loop?")
	}
	if len(inst.call.line) > 0 && inst.call.firstLine == "" {
		inst.call.firstLine = string(inst.call.line)
	}
	if said := inst.call.firstLine; said != "" {
		f.err = fmt.Errorf("%w; it said %q", f.err, said)
	}
	return f
}

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
	message, err := abi.DecodeFailure(answer)
	if err != nil {
		return &failure{cause: causeGarbage, what: "answered its configuration with garbage", err: err}
	}
	return errors.New(message)
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
			return &failure{cause: causeGarbage, what: "gave a buffer outside of its memory"}
		}
	}
	inst.memory.Write(inst.addr, message)
	return nil
}

// answer returns the message in the guest's memory that a result points to. It
// is valid until the guest runs again.
func (inst *instance) answer(result uint64) ([]byte, *failure) {
	addr, length := abi.Unpack(result)
	if int(length) > inst.module.output {
		return nil, &failure{cause: causeOutput, what: fmt.Sprintf("answered with %d bytes; the limit is %d", length, inst.module.output)}
	}
	b, ok := inst.memory.Read(addr, length)
	if !ok {
		return nil, &failure{cause: causeGarbage, what: "answered with an address outside of its memory"}
	}
	return b, nil
}

// decide asks the guest about a request. A *failure means that this instance
// must not be used again; another error that the host failed.
func (inst *instance) decide(ctx context.Context, request []byte, facts host.Facts, now int64) (host.Ruling, error) {
	inst.call.begin(ctx, facts, now)
	defer inst.call.end()
	m := inst.module
	fuel := m.fuel + int64(len(request))*fuelPerByte
	if err := inst.deliver(request, fuel); err != nil {
		return host.Ruling{}, err
	}
	err := inst.run(inst.admit, fuel, uint64(len(request)))
	if err != nil {
		return host.Ruling{}, inst.explain("failed", err)
	}
	m.metrics.fuel.Observe(float64(fuel - int64(inst.fuel.Get())))
	if inst.call.err != nil {
		return host.Ruling{}, inst.call.err
	}
	result := inst.stack[0]
	inst.view = abi.VerdictView{}
	if result != 0 {
		answer, f := inst.answer(result)
		if f != nil {
			return host.Ruling{}, f
		}
		if err := inst.view.Decode(answer); err != nil {
			return host.Ruling{}, &failure{cause: causeGarbage, what: "answered with garbage", err: err}
		}
	}
	ruling, f := inst.ruling(&inst.view)
	if f != nil {
		return host.Ruling{}, f
	}
	return ruling, nil
}
