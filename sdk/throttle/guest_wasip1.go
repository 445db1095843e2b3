package throttle

import (
	"talon/sdk/abi"
	"talon/sdk/internal/guest"
	"talon/sdk/module"
)

// A WebAssembly export has no receiver, and a module is one throttle: its state
// is these variables.
var (
	registered Throttle
	current    call
)

// Register makes t the throttle of this module. The manifest is only kept in the
// module for the host to find; a module of several worlds registers each with the
// same one.
func Register(manifest string, t Throttle) Registration {
	guest.Register("throttle", manifest, func(cfg abi.Config) (abi.Configured, error) {
		return abi.Configured{}, t.Configure(module.NewConfig(cfg))
	})
	registered = t
	return Registration{}
}

//go:wasmexport talon_throttle_delay
func delay(n int32) int64 {
	answer, err := current.askDelay(registered, guest.Input(n), guest.Output())
	guest.Check(err)
	return guest.Answer(answer)
}

//go:wasmexport talon_throttle_admit
func admit(n int32) int64 {
	answer, err := current.askAdmit(registered, guest.Input(n), guest.Output())
	guest.Check(err)
	return guest.Answer(answer)
}

//go:wasmexport talon_throttle_after
func after(n int32) int64 {
	answer, err := current.askAfter(registered, guest.Input(n), guest.Output())
	guest.Check(err)
	return guest.Answer(answer)
}

//go:wasmexport talon_throttle_pick
func pick(n int32) int64 {
	answer, err := current.askPick(registered, guest.Input(n), guest.Output())
	guest.Check(err)
	return guest.Answer(answer)
}

//go:wasmexport talon_throttle_tick
func tick(n int32) int64 {
	answer, err := current.askTick(registered, guest.Input(n), guest.Output())
	guest.Check(err)
	return guest.Answer(answer)
}

// hostFunctions are the imports. Each is a method, so that the linker drops unused ones from the
// import section of a module.
type hostFunctions struct{}

func (hostFunctions) log(level int32, text string) { guest.Log(level, text) }
