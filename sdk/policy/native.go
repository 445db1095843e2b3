//go:build !wasip1

package policy

import "talon/sdk/abi"

// Register does nothing natively; tests use package policytest.
func Register(string, Policy) Registration { return Registration{} }

// Host stands in for the host functions where a policy runs natively. The
// results are those of package abi.
type Host interface {
	StoreGet(id ID, out []byte) int32
	StoreQuery(filter, out []byte) int32
	StoreReferenced(idOrAddress string) int32
	Log(level Level, text string)
}

// Call decides natively, as the module would. It is reused as the module's
// state is.
type Call struct{ c call }

// NewCall returns a Call whose host functions are those of h.
func NewCall(h Host) *Call { return &Call{call{host: hostFunctions{h}}} }

// Admit asks p about an encoded AdmitRequest.
func (c *Call) Admit(p Policy, request []byte) (Verdict, error) {
	if err := c.c.req.Decode(request); err != nil {
		return Verdict{}, err
	}
	return p.Admit(Input{&c.c}), nil
}

// Configure calls p with settings, encoded and decoded as on the way into a
// module.
func Configure(p Policy, settings []abi.Setting) error {
	decoded, err := abi.DecodeConfig(abi.AppendConfig(nil, settings))
	if err != nil {
		return err
	}
	return p.Configure(Config{decoded})
}

type hostFunctions struct{ h Host }

func (f hostFunctions) storeGet(id *ID, out []byte) int32 { return f.h.StoreGet(*id, out) }

func (f hostFunctions) storeQuery(filter, out []byte) int32 { return f.h.StoreQuery(filter, out) }

func (f hostFunctions) storeReferenced(text string) int32 { return f.h.StoreReferenced(text) }

func (f hostFunctions) log(level int32, text string) { f.h.Log(Level(level), text) }
