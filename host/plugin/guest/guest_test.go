package guest

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/plugin/state"
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
	typeExtra          // one that the test adds
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

// load loads a module whose clock the test moves.
func load(t testing.TB, wasm []byte, change func(*Options)) (*Module, *testClock, error) {
	t.Helper()
	clock := &testClock{at: time.Unix(now, 0)}
	o := Options{Name: "guest", Instances: 2, Clock: clock.now, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&o)
	}
	m, err := Load(t.Context(), wasm, o)
	if err == nil {
		t.Cleanup(func() {
			if err := m.Close(context.Background()); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	return m, clock, err
}

func mustLoad(t testing.TB, wasm []byte, change func(*Options)) *Module {
	t.Helper()
	m, _, err := load(t, wasm, change)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// admit asks a module about an event.
func admit(t testing.TB, m *Module, it *host.Item) host.Ruling {
	t.Helper()
	r, err := ask(t, m, it, nil)
	if err != nil {
		t.Fatalf("admit: %v", err)
	}
	return r
}

func ask(t testing.TB, m *Module, it *host.Item, facts host.Facts) (host.Ruling, error) {
	t.Helper()
	var q Request
	r, fuel, err := m.Rule(t.Context(), Admit, q.Admit(it, now), facts, now, "client")
	if fuel < 0 {
		t.Errorf("a call spent %d fuel", fuel)
	}
	return r, err
}

// newState is a plugin's memory with nothing in it.
func newState(t testing.TB) State {
	t.Helper()
	memory, err := state.Open(t.Context(), nil, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return memory.Of("guest")
}

// passes is what a harmless guest says.
var passes = host.Ruling{Action: host.Pass, Module: "guest"}

// failures counts what the metrics say of a cause.
func failures(m *Module, of Cause) float64 {
	return testutil.ToFloat64(m.metrics.failures[of])
}

type testClock struct{ at time.Time }

func (c *testClock) now() time.Time { return c.at }
