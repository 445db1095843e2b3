package policy

import (
	"unsafe"

	"talon/sdk/abi"
	"talon/sdk/internal/guest"
	"talon/sdk/module"
)

// A WebAssembly export has no receiver, and a module is one policy, called by
// one goroutine at a time: its state is these variables.
var (
	registered Policy
	querier    Querier // the registered policy, if it is one
	connector  Connector
	pusher     Pusher
	audiencer  Audiencer
	current    call
)

// Register makes p the policy of this module. The manifest is only kept in the
// module for the host to find; a module of several worlds registers each with the
// same one.
func Register(manifest string, p Policy) Registration {
	guest.Register("policy", manifest, func(cfg abi.Config) (abi.Configured, error) {
		if err := p.Configure(module.NewConfig(cfg)); err != nil {
			return abi.Configured{}, err
		}
		return configured(p), nil
	})
	registered = p
	querier, _ = p.(Querier)
	connector, _ = p.(Connector)
	pusher, _ = p.(Pusher)
	audiencer, _ = p.(Audiencer)
	return Registration{}
}

// The functions of a policy. An export is there whether or not the policy has the
// method; the host calls those that the manifest names.

//go:wasmexport talon_admit
func admit(n int32) int64 {
	in, err := current.decodeAdmit(guest.Input(n))
	guest.Check(err)
	return answer(registered.Admit(in))
}

//go:wasmexport talon_query
func query(n int32) int64 {
	if querier == nil {
		panic("the manifest names the function query, but the policy has no method Query")
	}
	in, err := current.decodeQuery(guest.Input(n))
	guest.Check(err)
	return answer(querier.Query(in))
}

//go:wasmexport talon_connect
func connect(n int32) int64 {
	if connector == nil {
		panic("the manifest names the function connect, but the policy has no method Connect")
	}
	in, err := current.decodeConnect(guest.Input(n))
	guest.Check(err)
	return answer(connector.Connect(in))
}

//go:wasmexport talon_push
func push(n int32) int64 {
	if pusher == nil {
		panic("the manifest names the function push, but the policy has no method Push")
	}
	in, err := current.decodePush(guest.Input(n))
	guest.Check(err)
	return answer(pusher.Push(in))
}

//go:wasmexport talon_audience
func audience(n int32) int64 {
	if audiencer == nil {
		panic("the manifest names the function audience, but the policy has no method Audience")
	}
	in, err := current.decodeAdmit(guest.Input(n))
	guest.Check(err)
	return answer(audiencer.Audience(in))
}

// answer returns 0 for a pass, which has no fields.
func answer(verdict Verdict) int64 {
	if len(verdict.Rule)|len(verdict.Prefix)|len(verdict.Text)|len(verdict.Parent)|int(verdict.Action)|int(verdict.Retry) == 0 && !verdict.more() {
		return 0
	}
	return guest.Answer(verdict.append(guest.Output()))
}

// hostFunctions are the imports. Each is a method, so that the linker drops unused ones from the
// import section of a module.
type hostFunctions struct{}

func (hostFunctions) storeGet(id *ID, out []byte) int32 {
	return storeGet(unsafe.Pointer(id), unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) storeQuery(filter, out []byte) int32 {
	return storeQuery(unsafe.Pointer(unsafe.SliceData(filter)), uint32(len(filter)),
		unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) storeReferenced(text string) int32 {
	return storeReferenced(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

func (hostFunctions) log(level int32, text string) { guest.Log(level, text) }

func (hostFunctions) heldGet(id *ID, out []byte) int32 {
	return heldGet(unsafe.Pointer(id), unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) heldQuery(filter, out []byte) int32 {
	return heldQuery(unsafe.Pointer(unsafe.SliceData(filter)), uint32(len(filter)),
		unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) gitHas(repo, object string) int32 {
	return gitHas(unsafe.Pointer(unsafe.StringData(repo)), uint32(len(repo)),
		unsafe.Pointer(unsafe.StringData(object)), uint32(len(object)))
}

func (hostFunctions) gitRef(repo, ref string, out []byte) int32 {
	return gitRef(unsafe.Pointer(unsafe.StringData(repo)), uint32(len(repo)),
		unsafe.Pointer(unsafe.StringData(ref)), uint32(len(ref)), unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) usageGet(name string, out []byte) int32 {
	return usageGet(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) kvGet(key string, out []byte) int32 {
	return kvGet(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)), unsafe.Pointer(unsafe.SliceData(out)), uint32(len(out)))
}

func (hostFunctions) kvSet(key string, value []byte, ttl int64) int32 {
	return kvSet(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)),
		unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)), ttl)
}

func (hostFunctions) kvDelete(key string) {
	kvDelete(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)))
}

func (hostFunctions) kvIncr(key string, delta, ttl int64) int64 {
	return kvIncr(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)), delta, ttl)
}

func (hostFunctions) setsContains(name, member string) int32 {
	return setsContains(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)),
		unsafe.Pointer(unsafe.StringData(member)), uint32(len(member)))
}

func (hostFunctions) bucketTake(key string, n, burst int32, perMillis int64) int64 {
	return bucketTake(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)), n, burst, perMillis)
}

func (hostFunctions) metric(kind int32, name string, value float64) {
	metric(kind, unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), value)
}

//go:wasmimport talon store.get
//go:noescape
func storeGet(id, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon store.query
//go:noescape
func storeQuery(filter unsafe.Pointer, length uint32, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon store.referenced
//go:noescape
func storeReferenced(text unsafe.Pointer, length uint32) int32

//go:wasmimport talon held.get
//go:noescape
func heldGet(id, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon held.query
//go:noescape
func heldQuery(filter unsafe.Pointer, length uint32, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon git.has
//go:noescape
func gitHas(repo unsafe.Pointer, repoLength uint32, object unsafe.Pointer, objectLength uint32) int32

//go:wasmimport talon git.ref
//go:noescape
func gitRef(repo unsafe.Pointer, repoLength uint32, ref unsafe.Pointer, refLength uint32, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon usage.get
//go:noescape
func usageGet(name unsafe.Pointer, length uint32, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon kv.get
//go:noescape
func kvGet(key unsafe.Pointer, length uint32, out unsafe.Pointer, capacity uint32) int32

//go:wasmimport talon kv.set
//go:noescape
func kvSet(key unsafe.Pointer, length uint32, value unsafe.Pointer, valueLength uint32, ttl int64) int32

//go:wasmimport talon kv.delete
//go:noescape
func kvDelete(key unsafe.Pointer, length uint32)

//go:wasmimport talon kv.incr
//go:noescape
func kvIncr(key unsafe.Pointer, length uint32, delta, ttl int64) int64

//go:wasmimport talon sets.contains
//go:noescape
func setsContains(name unsafe.Pointer, length uint32, member unsafe.Pointer, memberLength uint32) int32

//go:wasmimport talon bucket.take
//go:noescape
func bucketTake(key unsafe.Pointer, length uint32, n, burst int32, perMillis int64) int64

//go:wasmimport talon metric
//go:noescape
func metric(kind int32, name unsafe.Pointer, length uint32, value float64)
