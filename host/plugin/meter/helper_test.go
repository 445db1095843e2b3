package meter

import (
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/host/plugin/wasmtest"
)

// engines are the two that a module must spend the same fuel on.
var engines = map[string]func() wazero.RuntimeConfig{
	"compiler":    wazero.NewRuntimeConfigCompiler,
	"interpreter": wazero.NewRuntimeConfigInterpreter,
}

const memoryPages = 1024

// guest is an instance whose fuel is known.
type guest struct {
	api.Module
	fuel api.MutableGlobal
}

// metered instantiates the rewritten module with this much fuel for its start
// function.
func metered(t testing.TB, rt wazero.Runtime, wasm []byte, fuel int64) (*guest, error) {
	t.Helper()
	return instantiate(t, rt, wasm, Options{StartFuel: fuel})
}

func instantiate(t testing.TB, rt wazero.Runtime, wasm []byte, opt Options) (*guest, error) {
	t.Helper()
	out, err := Rewrite(wasm, opt)
	if err != nil {
		t.Fatalf("Rewrite: %v", err)
	}
	mod, err := rt.InstantiateWithConfig(t.Context(), out, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, err
	}
	global, ok := mod.ExportedGlobal(FuelExport).(api.MutableGlobal)
	if !ok {
		t.Fatalf("no mutable global %q", FuelExport)
	}
	return &guest{mod, global}, nil
}

func (g *guest) left() int64 { return int64(g.fuel.Get()) }

// run calls a function with this much fuel and returns what it spent.
func (g *guest) run(ctx context.Context, fuel int64, name string, args ...uint64) ([]uint64, int64, error) {
	g.fuel.Set(uint64(fuel))
	f := g.ExportedFunction(name)
	if f == nil {
		return nil, 0, errors.New("no function " + name)
	}
	res, err := f.Call(ctx, args...)
	return res, fuel - g.left(), err
}

func newRuntime(t testing.TB, config wazero.RuntimeConfig) wazero.Runtime {
	t.Helper()
	rt := wazero.NewRuntimeWithConfig(t.Context(), config.WithMemoryLimitPages(memoryPages))
	t.Cleanup(func() { rt.Close(context.WithoutCancel(t.Context())) })
	return rt
}

func compiles(t testing.TB, rt wazero.Runtime, wasm []byte) error {
	t.Helper()
	c, err := rt.CompileModule(t.Context(), wasm)
	if err != nil {
		return err
	}
	return c.Close(t.Context())
}

// function returns a module whose only function "f" has this type and code.
func function(ft wasmtest.Type, locals []wasmtest.Locals, code ...wasmtest.Code) *wasmtest.Module {
	return &wasmtest.Module{
		Types:    []wasmtest.Type{ft},
		Funcs:    []wasmtest.Func{{Locals: locals, Code: wasmtest.Body(append(code, wasmtest.End)...)}},
		Memories: []wasmtest.Limits{{Min: 1}},
		Exports:  []wasmtest.Export{{Name: "f", Kind: wasmtest.KindFunc}},
	}
}

var i32Type = wasmtest.Type{Params: []wasmtest.ValType{wasmtest.I32}, Results: []wasmtest.ValType{wasmtest.I32}}
