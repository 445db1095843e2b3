//go:build !wasip1

package strategy

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Register does nothing natively; tests use package strategytest.
func Register(string, Strategy) Registration { return Registration{} }

// Host replaces the host functions where a strategy runs natively.
type Host interface {
	Log(level Level, text string)
}

// Call runs steps natively, as the module would. It is reused as the module's
// state is.
type Call struct{ c call }

// NewCall returns a Call whose host functions are those of h.
func NewCall(h Host) *Call { return &Call{call{host: hostFunctions{h}}} }

// Step runs s on an encoded StepRequest. It appends the encoded StepActions to b.
func (c *Call) Step(s Strategy, request, b []byte) ([]byte, error) {
	return c.c.step(s, request, b)
}

// Configure calls s with settings, encoded and decoded as on the way into a
// module.
func Configure(s Strategy, settings []abi.Setting) error {
	cfg, err := module.Reread(abi.Config{Settings: settings})
	if err != nil {
		return err
	}
	return s.Configure(cfg)
}

type hostFunctions struct{ h Host }

func (f hostFunctions) log(level int32, text string) { f.h.Log(Level(level), text) }
