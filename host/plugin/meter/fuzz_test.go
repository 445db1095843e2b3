package meter

import (
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// FuzzRewrite checks that a module is valid after rewriting exactly if it was
// before, and that a valid one does not run for ever.
func FuzzRewrite(f *testing.F) {
	for _, tt := range rejected {
		if len(tt.wasm) < 1<<12 {
			f.Add(tt.wasm)
		}
	}
	for _, tt := range spends {
		f.Add(tt.module.Bytes())
	}
	f.Add(countdown(2, nil).Bytes())
	for seed := range uint64(8) {
		g := &generator{rand: rand.New(rand.NewPCG(seed, 1)), funcs: 3}
		f.Add(g.module().Bytes())
	}
	rt := newRuntime(f, wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(16))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, err := Rewrite(wasm, Options{StartFuel: 10_000, MaxModule: 1 << 16})
		if err != nil {
			return
		}
		before, after := compiles(t, rt, withoutCustom(t, wasm)), compiles(t, rt, out)
		if before == nil && after != nil {
			t.Fatalf("a valid module became invalid: %v", after)
		}
		if before != nil && after == nil {
			t.Fatalf("an invalid module became valid; it was: %v", before)
		}
		if after != nil {
			return
		}
		mod, err := rt.InstantiateWithConfig(t.Context(), out, wazero.NewModuleConfig().WithName("").WithStartFunctions())
		if err != nil {
			return // it imports something, or its start function trapped
		}
		defer mod.Close(t.Context())
		g := &guest{Module: mod}
		g.fuel = mod.ExportedGlobal(FuelExport).(api.MutableGlobal)
		for name, def := range mod.ExportedFunctionDefinitions() {
			args := make([]uint64, len(def.ParamTypes()))
			_, spent, err := g.run(t.Context(), 10_000, name, args...)
			if err == nil && (spent < 1 || spent > 10_000) {
				t.Fatalf("%q spent %d of 10000", name, spent)
			}
		}
	})
}

// withoutCustom removes custom sections. They mean nothing to an engine and
// Rewrite drops them, but this engine refuses some that the specification allows.
func withoutCustom(t *testing.T, wasm []byte) []byte {
	out := append([]byte(nil), wasm[:8]...)
	for r := (reader{b: wasm, pos: 8}); r.more(); {
		start := r.pos
		id := r.byte()
		r.skip(int(r.u32()))
		if r.err != nil {
			t.Fatalf("a module that was rewritten has bad sections: %v", r.err)
		}
		if id != idCustom {
			out = append(out, wasm[start:r.pos]...)
		}
	}
	return out
}
