package strategy

import (
	"runtime"
	"runtime/debug"

	"talon/sdk/abi"
	"talon/sdk/internal/guest"
	"talon/sdk/module"
)

// A WebAssembly export has no receiver, and a module is one strategy: its state
// is these variables.
var (
	registered Strategy
	current    call
)

// garbage is the percentage of garbage, relative to its live memory, at which a module is
// collected. A strategy keeps much memory for long, and nearly none of it has pointers.
const garbage = 20

// Register makes s the strategy of this module. The manifest is only kept in the
// module for the host to find; a module of several worlds registers each with the
// same one.
func Register(manifest string, s Strategy) Registration {
	guest.Register("strategy", manifest, func(cfg abi.Config) (abi.Configured, error) {
		return abi.Configured{}, s.Configure(module.NewConfig(cfg))
	})
	registered = s
	debug.SetGCPercent(garbage)
	return Registration{}
}

//go:wasmexport talon_step
func step(n int32) int64 {
	// This gives the collector's own goroutines a turn. In a module that lives for weeks and never
	// yields, a collection may not end. Then its garbage stays in memory.
	runtime.Gosched()
	answer, err := current.step(registered, guest.Input(n), guest.Output())
	guest.Check(err)
	return guest.Answer(answer)
}

// hostFunctions are the imports. Each is a method, so that the linker drops unused ones from the
// import section of a module.
type hostFunctions struct{}

func (hostFunctions) log(level int32, text string) { guest.Log(level, text) }
