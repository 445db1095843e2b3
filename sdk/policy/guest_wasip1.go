package policy

import (
	"unsafe"

	"talon/sdk/abi"
)

// A WebAssembly export has no receiver, and a module is one policy, called by
// one goroutine at a time: its state is these variables.
var (
	registered Policy
	current    call
	input      []byte // where the host writes
	output     []byte // what the host reads
	kept       string // the manifest; a constant that nothing holds is not linked
)

// Register makes p the policy of this module. The manifest is only kept in the
// module for the host to find.
func Register(manifest string, p Policy) Registration {
	if registered != nil {
		panic("policy.Register was called twice")
	}
	registered, kept = p, manifest
	return Registration{}
}

//go:wasmexport talon_abi_1
func marker() {}

//go:wasmexport talon_buffer
func buffer(size int32) int32 {
	if int(size) > len(input) {
		input = make([]byte, max(int(size), 8<<10))
	}
	return int32(address(input))
}

//go:wasmexport talon_configure
func configure(n int32) int64 {
	settings, err := abi.DecodeConfig(input[:n])
	if err == nil {
		if registered == nil {
			panic("the module did not call policy.Register")
		}
		err = registered.Configure(Config{settings})
	}
	if err == nil {
		output = make([]byte, 0, 1<<10)
		return 0
	}
	output = abi.AppendFailure(nil, err.Error())
	return answer(output)
}

//go:wasmexport talon_admit
func admit(n int32) int64 {
	if err := current.req.Decode(input[:n]); err != nil {
		panic("the host's request is malformed")
	}
	verdict := registered.Admit(Input{&current})
	if verdict == (Verdict{}) {
		return 0
	}
	output = verdict.append(output[:0])
	return answer(output)
}

func answer(b []byte) int64 {
	return abi.Pack(address(b), uint32(len(b)))
}

func address(b []byte) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// hostFunctions are the imports. Each is a method, so that the linker drops what
// a module does not use from its import section.
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

func (hostFunctions) log(level int32, text string) {
	logLine(level, unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
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

//go:wasmimport talon log
//go:noescape
func logLine(level int32, text unsafe.Pointer, length uint32)
