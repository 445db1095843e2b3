//go:build !wasip1

package throttle

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Register does nothing natively; tests use package throttletest.
func Register(string, Throttle) Registration { return Registration{} }

// Host replaces the host functions where a throttle runs natively.
type Host interface {
	Log(level Level, text string)
}

// Call decides natively, as the module would: each method asks t about an encoded
// request, and appends the encoded answer to b. It is reused as the module's
// state is.
type Call struct{ c call }

// NewCall returns a Call whose host functions are those of h.
func NewCall(h Host) *Call { return &Call{call{host: hostFunctions{h}}} }

func (c *Call) Delay(t Throttle, request, b []byte) ([]byte, error) {
	return c.c.askDelay(t, request, b)
}

func (c *Call) Admit(t Throttle, request, b []byte) ([]byte, error) {
	return c.c.askAdmit(t, request, b)
}

func (c *Call) After(t Throttle, request, b []byte) ([]byte, error) {
	return c.c.askAfter(t, request, b)
}

func (c *Call) Pick(t Throttle, request, b []byte) ([]byte, error) {
	return c.c.askPick(t, request, b)
}

func (c *Call) Tick(t Throttle, request, b []byte) ([]byte, error) {
	return c.c.askTick(t, request, b)
}

// Configure calls t with settings, encoded and decoded as on the way into a
// module.
func Configure(t Throttle, settings []abi.Setting) error {
	cfg, err := module.Reread(abi.Config{Settings: settings})
	if err != nil {
		return err
	}
	return t.Configure(cfg)
}

type hostFunctions struct{ h Host }

func (f hostFunctions) log(level int32, text string) { f.h.Log(Level(level), text) }
