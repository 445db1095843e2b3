//go:build !wasip1

package policy

import (
	"talon/sdk/abi"
	"talon/sdk/module"
)

// Register does nothing natively; tests use package policytest.
func Register(string, Policy) Registration { return Registration{} }

// Host replaces the host functions where a policy runs natively. The results are those of package
// abi.
type Host interface {
	StoreGet(id ID, out []byte) int32
	StoreQuery(filter, out []byte) int32
	StoreReferenced(idOrAddress string) int32
	Log(level Level, text string)
	HeldGet(id ID, out []byte) int32
	HeldQuery(filter, out []byte) int32
	GitHas(repo, object string) int32
	GitRef(repo, ref string, out []byte) int32
	UsageGet(name string, out []byte) int32
	KVGet(key string, out []byte) int32
	KVSet(key string, value []byte, ttl int64) int32
	KVDelete(key string)
	KVIncr(key string, delta, ttl int64) int64
	SetsContains(name, member string) int32
	BucketTake(key string, n, burst int32, perMillis int64) int64
	Metric(kind int32, name string, value float64)
}

// Call decides natively, as the module would. It is reused as the module's
// state is.
type Call struct{ c call }

// NewCall returns a Call whose host functions are those of h.
func NewCall(h Host) *Call { return &Call{call{host: hostFunctions{h}}} }

// Admit asks p about an encoded AdmitRequest.
func (c *Call) Admit(p Policy, request []byte) (Verdict, error) {
	in, err := c.c.decodeAdmit(request)
	if err != nil {
		return Verdict{}, err
	}
	return p.Admit(in), nil
}

// Query asks p about an encoded QueryRequest.
func (c *Call) Query(p Querier, request []byte) (Verdict, error) {
	in, err := c.c.decodeQuery(request)
	if err != nil {
		return Verdict{}, err
	}
	return p.Query(in), nil
}

// Connect asks p about an encoded ConnectRequest.
func (c *Call) Connect(p Connector, request []byte) (Verdict, error) {
	in, err := c.c.decodeConnect(request)
	if err != nil {
		return Verdict{}, err
	}
	return p.Connect(in), nil
}

// Push asks p about an encoded PushRequest.
func (c *Call) Push(p Pusher, request []byte) (Verdict, error) {
	in, err := c.c.decodePush(request)
	if err != nil {
		return Verdict{}, err
	}
	return p.Push(in), nil
}

// Audience asks p about the audience of an encoded AdmitRequest.
func (c *Call) Audience(p Audiencer, request []byte) (Verdict, error) {
	in, err := c.c.decodeAdmit(request)
	if err != nil {
		return Verdict{}, err
	}
	return p.Audience(in), nil
}

// Configure calls p with a configuration, encoded and decoded as on the way into a
// module. It returns the answer to the host.
func Configure(p Policy, c abi.Config) (abi.Configured, error) {
	cfg, err := module.Reread(c)
	if err != nil {
		return abi.Configured{}, err
	}
	if err := p.Configure(cfg); err != nil {
		return abi.Configured{}, err
	}
	return abi.DecodeConfigured(abi.AppendConfigured(nil, ref(configured(p))))
}

func ref[T any](v T) *T { return &v }

type hostFunctions struct{ h Host }

func (f hostFunctions) storeGet(id *ID, out []byte) int32 { return f.h.StoreGet(*id, out) }

func (f hostFunctions) storeQuery(filter, out []byte) int32 { return f.h.StoreQuery(filter, out) }

func (f hostFunctions) storeReferenced(text string) int32 { return f.h.StoreReferenced(text) }

func (f hostFunctions) log(level int32, text string) { f.h.Log(Level(level), text) }

func (f hostFunctions) heldGet(id *ID, out []byte) int32 { return f.h.HeldGet(*id, out) }

func (f hostFunctions) heldQuery(filter, out []byte) int32 { return f.h.HeldQuery(filter, out) }

func (f hostFunctions) gitHas(repo, object string) int32 { return f.h.GitHas(repo, object) }

func (f hostFunctions) gitRef(repo, ref string, out []byte) int32 { return f.h.GitRef(repo, ref, out) }

func (f hostFunctions) usageGet(name string, out []byte) int32 { return f.h.UsageGet(name, out) }
func (f hostFunctions) kvGet(key string, out []byte) int32     { return f.h.KVGet(key, out) }

func (f hostFunctions) kvSet(key string, value []byte, ttl int64) int32 {
	return f.h.KVSet(key, value, ttl)
}

func (f hostFunctions) kvDelete(key string) { f.h.KVDelete(key) }

func (f hostFunctions) kvIncr(key string, delta, ttl int64) int64 {
	return f.h.KVIncr(key, delta, ttl)
}

func (f hostFunctions) setsContains(name, member string) int32 { return f.h.SetsContains(name, member) }

func (f hostFunctions) bucketTake(key string, n, burst int32, perMillis int64) int64 {
	return f.h.BucketTake(key, n, burst, perMillis)
}

func (f hostFunctions) metric(kind int32, name string, value float64) { f.h.Metric(kind, name, value) }
