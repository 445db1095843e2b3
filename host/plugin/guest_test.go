package plugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"talon/host/plugin/wasmtest"
	"talon/sdk/abi"
)

// Types of the functions of a guest.
const (
	typeVoid    = iota // () -> ()
	typeI32            // (i32) -> i32
	typeI64            // (i32) -> i64
	typeOne            // (i32) -> ()
	typeTwoI32         // (i32, i32) -> i32
	typeThree          // (i32, i32, i32) -> ()
	typeGet            // (i32, i32, i32) -> i32
	typeQuery          // (i32, i32, i32, i32) -> i32
	bufferAddr  = 4096
	messageAddr = 1024
	scratchAddr = 2048
)

// guest is a small policy, written out by assemble. A nil piece of code is the
// harmless one.
type guest struct {
	manifest   string
	imports    []wasmtest.Import
	initialize wasmtest.Code
	buffer     wasmtest.Code
	configure  wasmtest.Code
	admit      wasmtest.Code
	message    []byte // at messageAddr

	change func(m *wasmtest.Module)
}

const plainManifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"]}`

func withCapabilities(names ...string) string {
	return fmt.Sprintf(`{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "capabilities": %s}`, jsonList(names))
}

func jsonList(names []string) string {
	s := "["
	for i, name := range names {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprintf("%q", name)
	}
	return s + "]"
}

func (g guest) assemble() []byte {
	or := func(c, instead wasmtest.Code) wasmtest.Code {
		if c == nil {
			c = instead
		}
		return wasmtest.Body(c, wasmtest.End)
	}
	text := g.manifest
	if text == "" {
		text = plainManifest
	}
	first := uint32(len(g.imports))
	m := &wasmtest.Module{
		Types: []wasmtest.Type{
			{},
			{Params: params(1), Results: []wasmtest.ValType{wasmtest.I32}},
			{Params: params(1), Results: []wasmtest.ValType{wasmtest.I64}},
			{Params: params(1)},
			{Params: params(2), Results: []wasmtest.ValType{wasmtest.I32}},
			{Params: params(3)},
			{Params: params(3), Results: []wasmtest.ValType{wasmtest.I32}},
			{Params: params(4), Results: []wasmtest.ValType{wasmtest.I32}},
		},
		Imports: g.imports,
		Funcs: []wasmtest.Func{
			{Type: typeVoid, Code: wasmtest.End},
			{Type: typeI32, Code: or(g.buffer, wasmtest.I32Const(bufferAddr))},
			{Type: typeI64, Code: or(g.configure, wasmtest.I64Const(0))},
			{Type: typeI64, Code: or(g.admit, wasmtest.I64Const(0))},
			{Type: typeVoid, Code: or(g.initialize, wasmtest.Nop)},
		},
		Memories: []wasmtest.Limits{{Min: 4}},
		Exports: []wasmtest.Export{
			{Name: abi.ExportMemory, Kind: wasmtest.KindMemory},
			{Name: abi.ExportMarker, Index: first},
			{Name: abi.ExportBuffer, Index: first + 1},
			{Name: abi.ExportConfigure, Index: first + 2},
			{Name: abi.ExportAdmit, Index: first + 3},
			{Name: abi.ExportInitialize, Index: first + 4},
		},
		Datas: []wasmtest.Data{
			{Offset: at(messageAddr), Bytes: g.message},
			{Offset: at(128 << 10), Bytes: []byte(text)},
		},
	}
	if g.change != nil {
		g.change(m)
	}
	return m.Bytes()
}

func params(n int) []wasmtest.ValType {
	types := make([]wasmtest.ValType, n)
	for i := range types {
		types[i] = wasmtest.I32
	}
	return types
}

func at(addr int32) wasmtest.Code { return wasmtest.Body(wasmtest.I32Const(addr), wasmtest.End) }

// imported is an import of a function of the host.
func imported(module, name string, typ uint32) []wasmtest.Import {
	return []wasmtest.Import{{Module: module, Name: name, Kind: wasmtest.KindFunc, Type: typ}}
}

// forever is an endless loop.
var forever = wasmtest.Body(wasmtest.Loop(wasmtest.Void), wasmtest.Br(0), wasmtest.End)

// repeat runs the code without end, dropping nothing.
func repeat(code wasmtest.Code) wasmtest.Code {
	return wasmtest.Body(wasmtest.Loop(wasmtest.Void), code, wasmtest.Br(0), wasmtest.End)
}

// returns is an admit that answers with n bytes at addr.
func returns(addr, n uint32) wasmtest.Code { return wasmtest.I64Const(abi.Pack(addr, n)) }

// says is a guest that gives one verdict, as these bytes.
func says(message []byte) guest {
	return guest{message: message, admit: returns(messageAddr, uint32(len(message)))}
}

func writeModule(t testing.TB, name string, wasm []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name+".wasm"), wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openGuest opens a chain of one module with a clock that the test moves.
func openGuest(t testing.TB, wasm []byte, change func(*Options)) (*Chain, *testClock, error) {
	t.Helper()
	o := Options{Dir: writeModule(t, "guest", wasm), Chain: []string{"guest"}, Instances: 2}
	if change != nil {
		change(&o)
	}
	clock := &testClock{at: time.Unix(now, 0)}
	c, err := open(t.Context(), o, clock.now)
	if err == nil {
		t.Cleanup(func() { c.Close(context.Background()) })
	}
	return c, clock, err
}

type testClock struct{ at time.Time }

func (c *testClock) now() time.Time { return c.at }
