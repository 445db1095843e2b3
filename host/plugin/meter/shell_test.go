package meter

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"talon/host/plugin/wasmtest"
)

// TestShell compares the memory that a module begins with, and what it exports, with
// those of its shell. Go's linker has thousands of data segments.
func TestShell(t *testing.T) {
	at := func(addr int32, data ...byte) wasmtest.Data {
		return wasmtest.Data{Offset: wasmtest.Body(wasmtest.I32Const(addr), wasmtest.End), Bytes: data}
	}
	for name, test := range map[string]struct {
		datas    []wasmtest.Data
		segments uint64
	}{
		"none":        {nil, 0},
		"one":         {[]wasmtest.Data{at(5, 1, 2)}, 1},
		"neighbours":  {[]wasmtest.Data{at(5, 1, 2), at(7, 3), at(10, 4)}, 1},
		"far":         {[]wasmtest.Data{at(5, 1, 2), at(7+maxGap+1, 3)}, 2},
		"near":        {[]wasmtest.Data{at(5, 1, 2), at(7+maxGap, 3)}, 1},
		"overlapping": {[]wasmtest.Data{at(5, 1, 2, 3, 4), at(6, 9)}, 2},
		"backwards":   {[]wasmtest.Data{at(500, 7, 7), at(490, 1), at(496, 1), at(503, 2)}, 1},
		"covered":     {[]wasmtest.Data{at(10, 1, 2, 3, 4, 5, 6), at(9, 7), at(14, 8)}, 3},
		"empty":       {[]wasmtest.Data{at(5), at(9, 1)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := function(i32Type, nil, wasmtest.LocalGet(0))
			m.Datas = test.datas
			m.Exports = append(m.Exports, wasmtest.Export{Name: "memory", Kind: wasmtest.KindMemory})
			segments := uint64(0)
			if part := testShell(t, m.Bytes(), "f"); part != nil {
				segments, _ = binary.Uvarint(part)
			}
			if segments != test.segments {
				t.Errorf("%d segments, want %d", segments, test.segments)
			}
		})
	}
	t.Run("a Go module", func(t *testing.T) {
		if segments, _ := binary.Uvarint(testShell(t, goModule(t), goFunctions...)); segments > 1000 {
			t.Errorf("%d segments", segments)
		}
	})
}

// testShell returns the content of the shell's data section.
func testShell(t *testing.T, wasm []byte, exports ...string) []byte {
	t.Helper()
	full, err := Rewrite(wasm, Options{StartFuel: enough})
	if err != nil {
		t.Fatal(err)
	}
	shell := Shell(full)
	before, after := memoryOf(t, full), memoryOf(t, shell, exports...)
	if !bytes.Equal(before, after) {
		t.Error("it begins with another memory")
	}
	for r := (reader{b: shell, pos: 8}); r.more(); {
		id := r.byte()
		if part := r.part(int(r.u32())); id == idData {
			return part.b[part.pos:]
		}
	}
	return nil
}

// memoryOf is the memory of a module that has not run yet, in which these functions trap.
func memoryOf(t *testing.T, wasm []byte, trap ...string) []byte {
	t.Helper()
	rt := newRuntime(t, wazero.NewRuntimeConfigInterpreter())
	compiled, err := rt.CompileModule(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		if rt.Module(module) == nil {
			b := rt.NewHostModuleBuilder(module)
			for _, g := range compiled.ImportedFunctions() {
				if of, name, _ := g.Import(); of == module {
					b.NewFunctionBuilder().WithGoFunction(nothing, g.ParamTypes(), g.ResultTypes()).Export(name)
				}
			}
			if _, err := b.Instantiate(t.Context()); err != nil {
				t.Fatalf("%s.%s: %v", module, name, err)
			}
		}
	}
	mod, err := rt.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	memory, _ := mod.Memory().Read(0, mod.Memory().Size())
	for _, name := range trap {
		if _, err := mod.ExportedFunction(name).Call(t.Context(), 1); err == nil {
			t.Errorf("%s does not trap", name)
		}
	}
	return memory
}

var nothing = api.GoFunc(func(context.Context, []uint64) {})

func TestVersion(t *testing.T) {
	if v := Version(); v == [32]byte{} || v == sha256.Sum256(nil) || v != Version() {
		t.Errorf("the version is %x", v)
	}
}
