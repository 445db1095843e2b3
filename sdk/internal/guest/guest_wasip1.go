package guest

import (
	"math/bits"
	"unsafe"

	"talon/sdk/abi"
)

// A WebAssembly export has no receiver, and a module is called by one goroutine
// at a time: its state is these variables.
var (
	worlds []world
	kept   string // the manifest; a constant that nothing holds is not linked
	made   string // says which SDK the module is built with; likewise
	input  []byte // where the host writes
	output []byte // what the host reads
)

// mark is what package manifest looks for; the version is that of the file VERSION.
const mark = "talon-sdk/go 0.9.0\x00"

type world struct {
	name      string
	configure func(abi.Config) (abi.Configured, error)
}

// Register adds a world to the module. The manifest is only kept for the host to
// find.
//
// configure returns the answer to the host of a world that takes its configuration.
func Register(name, manifest string, configure func(abi.Config) (abi.Configured, error)) {
	for _, w := range worlds {
		if w.name == name {
			panic(name + ".Register was called twice")
		}
	}
	if len(worlds) > 0 && manifest != kept {
		panic("the worlds of a module are registered with different manifests")
	}
	kept, made = manifest, mark
	worlds = append(worlds, world{name, configure})
}

// Input returns the message that the host has written.
func Input(n int32) []byte { return input[:n] }

// maxKept is the largest output buffer that is kept for the next call: an answer
// to a large world is rare.
const maxKept = 1 << 20

// Output returns an empty buffer for the answer to the call that is under way.
func Output() []byte {
	if cap(output) > maxKept {
		output = nil
	}
	return output[:0]
}

// Answer keeps b until the next call, and returns the result that points the host
// to it: 0 for a message without fields.
func Answer(b []byte) int64 {
	output = b
	if len(b) == 0 {
		return 0
	}
	return abi.Pack(address(b), uint32(len(b)))
}

// Check panics if the host's message could not be read.
func Check(err error) {
	if err != nil {
		panic("the host's request is malformed")
	}
}

func address(b []byte) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

//go:wasmexport talon_abi_1
func marker() {}

//go:wasmexport talon_buffer
func buffer(size int32) int32 {
	if int(size) > len(input) {
		// In steps, or messages that are each a little longer than the one before fill the
		// memory with buffers before the collector has been through.
		n := max(int(size), 8<<10)
		if n <= 4<<20 {
			n = 1 << bits.Len(uint(n-1))
		}
		input = make([]byte, n)
	}
	return int32(address(input))
}

//go:wasmexport talon_configure
func configure(n int32) int64 {
	config, err := abi.DecodeConfig(input[:n])
	if len(worlds) == 0 {
		panic("the module registers nothing")
	}
	var all abi.Configured
	for i := 0; err == nil && i < len(worlds); i++ {
		var one abi.Configured
		one, err = worlds[i].configure(config)
		all.Idle = append(all.Idle, one.Idle...)
		if one.About.Says() {
			all.About = one.About
		}
	}
	if err != nil {
		return Answer(abi.AppendConfigured(nil, &abi.Configured{Failure: err.Error()}))
	}
	return Answer(abi.AppendConfigured(make([]byte, 0, 1<<10), &all))
}

// Log calls the host function "log".
func Log(level int32, text string) {
	logLine(level, unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

//go:wasmimport talon log
//go:noescape
func logLine(level int32, text unsafe.Pointer, length uint32)
