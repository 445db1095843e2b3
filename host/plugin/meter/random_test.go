package meter

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	w "talon/host/plugin/wasmtest"
)

// generator writes random structured functions. Each step of a function is a
// marker, which adds one to the global "steps" and costs markerCost: a run that
// took n steps must have spent at least n times that.
//
// All functions take and return an i32, and end, or run for ever, as their
// pseudo-random state says: global 1 is that state.
type generator struct {
	rand  *rand.Rand
	funcs int
	index int // of this function: it calls only those after it
	size  int // steps left to write in this function

	loops bool // most dispatch loops have short parts, which go round in loops that are copied
}

const (
	markerCost = 4
	localPC    = 0 // of dispatch loops; the parameter
	localSum   = 1
	globSteps  = 0
	globState  = 1
)

var marker = w.Body(w.GlobalGet(globSteps), w.I32Const(1), w.I32Add, w.GlobalSet(globSteps))

// chance pushes one with a probability of about 1 in n.
func chance(n int32) w.Code {
	return w.Body(
		w.GlobalGet(globState), w.I32Const(1664525), w.I32Mul, w.I32Const(1013904223), w.I32Add, w.GlobalSet(globState),
		w.GlobalGet(globState), w.I32Const(16), w.I32ShrU, w.I32Const(n), w.Op(0x70), w.I32Eqz)
}

func (g *generator) module() *w.Module {
	m := &w.Module{
		Types:    []w.Type{i32Type},
		Memories: []w.Limits{{Min: 1}},
		Tables:   []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: uint32(g.funcs)}}},
		Globals: []w.Global{
			{Type: w.I32, Mutable: true, Init: w.Body(w.I32Const(0), w.End)},
			{Type: w.I32, Mutable: true, Init: w.Body(w.I32Const(int32(g.rand.Uint32())), w.End)},
		},
		Exports: []w.Export{{Name: "f"}, {Name: "steps", Kind: w.KindGlobal, Index: globSteps}},
	}
	elem := w.Elem{Offset: w.Body(w.I32Const(0), w.End)}
	for i := range g.funcs {
		g.index = i
		g.size = 5 + g.rand.IntN(40)
		m.Funcs = append(m.Funcs, w.Func{Locals: i32s(1), Code: w.Body(g.block(nil), w.LocalGet(localSum), w.End)})
		elem.Funcs = append(elem.Funcs, uint32(i))
	}
	m.Elems = []w.Elem{elem}
	return m
}

// block writes some statements. Labels says of each open label, the innermost
// last, to how many labels a dispatch loop leads, or 0 for any other.
func (g *generator) block(labels []int) (c w.Code) {
	for range 1 + g.rand.IntN(4) {
		c = w.Body(c, g.statement(labels))
	}
	return c
}

func (g *generator) statement(labels []int) w.Code {
	if g.size--; g.size < 0 || len(labels) > 12 {
		return marker
	}
	inner := append(labels[:len(labels):len(labels)], 0)
	switch g.rand.IntN(14) {
	case 0:
		return w.Body(w.Block(w.Void), g.block(inner), w.End)
	case 1, 2:
		return w.Body(w.Loop(w.Void), marker, g.block(inner), chance(g.odds()), w.I32Eqz, w.BrIf(0), w.End)
	case 3:
		return w.Body(chance(2), w.If(w.Void), g.block(inner), w.Else, g.block(inner), w.End)
	case 4, 5:
		return g.dispatch(labels)
	case 6, 7:
		return g.jump(labels)
	case 8, 9:
		callee := g.index + 1 + g.rand.IntN(g.funcs)
		if callee >= g.funcs {
			return marker
		}
		if g.rand.IntN(2) == 0 {
			return w.Body(marker, w.LocalGet(localSum), w.I32Const(int32(callee)), w.CallIndirect(0, 0), w.LocalSet(localSum))
		}
		return w.Body(marker, w.LocalGet(localSum), w.Call(uint32(callee)), w.LocalSet(localSum))
	case 10:
		return w.Body(w.I32Const(0), w.LocalGet(localSum), w.I32Const(int32(g.rand.IntN(200))), w.MemoryFill, marker)
	case 11:
		if len(labels) == 0 {
			return marker
		}
		depths := make([]uint32, 1+g.rand.IntN(4))
		for i := range depths {
			depths[i] = uint32(g.rand.IntN(len(labels)))
		}
		return w.Body(chance(3), w.If(w.Void), marker, w.GlobalGet(globState), w.I32Const(3), w.I32And, w.BrTable(shift(depths)...), w.End)
	case 12:
		return w.Body(chance(9), w.If(w.Void), w.LocalGet(localSum), w.Return, w.End)
	default:
		return w.Body(marker, w.LocalGet(localSum), w.I32Const(31), w.I32Mul, w.LocalGet(localPC), w.I32Add, w.LocalSet(localSum))
	}
}

// odds is how rarely a loop is left: mostly soon, sometimes hardly ever.
func (g *generator) odds() int32 {
	return []int32{1, 2, 2, 3, 5, 9, 40, 20_000}[g.rand.IntN(8)]
}

func shift(depths []uint32) []uint32 {
	for i := range depths {
		depths[i]++
	}
	return depths
}

// dispatch writes a dispatch loop whose parts jump to each other.
func (g *generator) dispatch(labels []int) w.Code {
	n := 1 + g.rand.IntN(5)
	targets := make([]uint32, n)
	for i := range targets {
		targets[i] = uint32(g.rand.IntN(n))
	}
	parts := make([]w.Code, n)
	for i := range parts {
		open := append(labels[:len(labels):len(labels)], n)
		for range n - 1 - i {
			open = append(open, 0)
		}
		inner := g.block
		if g.loops && g.rand.IntN(4) > 0 {
			inner = g.short
		}
		parts[i] = w.Body(marker, inner(open), g.jump(open))
	}
	return w.Body(w.I32Const(int32(g.rand.IntN(n))), w.LocalSet(localPC), dispatchLoop(n, targets, parts...))
}

// short writes a little code without loops and calls; some of it leaves a value on the
// stack while it jumps.
func (g *generator) short(labels []int) w.Code {
	inner := append(labels[:len(labels):len(labels)], 0)
	switch g.rand.IntN(6) {
	case 0:
		return w.Body(chance(2), w.If(w.Void), marker, g.jump(inner), w.Else, g.jump(inner), w.End)
	case 1:
		return w.Body(w.LocalGet(localSum), g.jump(labels), w.LocalSet(localSum))
	case 2:
		return w.Body(w.Block(w.Void), g.jump(inner), marker, w.End)
	default:
		return g.jump(labels)
	}
}

// jump leaves for one of the labels, more or less often; for a dispatch loop in
// the way of the Go compiler, mostly.
func (g *generator) jump(labels []int) w.Code {
	if len(labels) == 0 {
		return marker
	}
	depth := g.rand.IntN(len(labels))
	n := labels[len(labels)-1-depth]
	if n > 0 && g.rand.IntN(8) > 0 {
		return w.Body(chance(g.odds()), w.I32Eqz, w.If(w.Void), marker, gotoLabel(localPC, int32(g.rand.IntN(n+2)-1), uint32(depth+1)), w.End)
	}
	if g.rand.IntN(4) == 0 {
		return w.Body(chance(3), w.If(w.Void), marker, w.Br(uint32(depth+1)), w.End)
	}
	return w.Body(chance(3), w.BrIf(uint32(depth)))
}

// TestRandom runs random programs: metered, they must do the same as before,
// pay for every step, spend the same on both engines, and end.
func TestRandom(t *testing.T) {
	const (
		programs = 400
		budget   = 300_000
	)
	compiler := newRuntime(t, wazero.NewRuntimeConfigCompiler())
	interpreter := newRuntime(t, wazero.NewRuntimeConfigInterpreter())
	var ended, spent, steps int64
	for seed := range uint64(programs) {
		g := &generator{rand: rand.New(rand.NewPCG(seed, 0)), funcs: 1 + int(seed%4)}
		wasm := g.module().Bytes()
		type result struct {
			value, steps uint64
			spent        int64
			failed       bool
		}
		results := map[string]result{}
		for name, rt := range map[string]wazero.Runtime{"compiler": compiler, "interpreter": interpreter} {
			guest, err := metered(t, rt, wasm, 0)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			res, spent, err := guest.run(t.Context(), budget, "f", 3)
			r := result{steps: guest.ExportedGlobal("steps").Get(), spent: spent, failed: err != nil}
			if err == nil {
				r.value = res[0]
			} else if guest.left() >= 0 {
				t.Fatalf("seed %d: %s: trap with %d fuel left: %v", seed, name, guest.left(), err)
			}
			if int64(r.steps)*markerCost > spent {
				t.Fatalf("seed %d: %s: %d steps for %d fuel", seed, name, r.steps, spent)
			}
			results[name] = r
			guest.Close(t.Context())
		}
		r := results["compiler"]
		if r != results["interpreter"] {
			t.Fatalf("seed %d: the engines differ: %+v", seed, results)
		}
		spent, steps = spent+r.spent, steps+int64(r.steps)
		if r.failed {
			continue
		}
		ended++
		plain, err := interpreter.InstantiateWithConfig(t.Context(), wasm, wazero.NewModuleConfig().WithName(""))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, want := fmt.Sprint(r.value, r.steps), original(t, plain); got != want {
			t.Fatalf("seed %d: value and steps are %s metered, %s without", seed, got, want)
		}
		plain.Close(t.Context())
	}
	t.Logf("%d of %d programs ended by themselves; %d steps, %.1f fuel each", ended, programs, steps, float64(spent)/float64(steps))
	if ended < programs/4 || ended == programs {
		t.Errorf("%d of %d programs ended by themselves: the generator is off balance", ended, programs)
	}
}

func original(t *testing.T, mod api.Module) string {
	res, err := mod.ExportedFunction("f").Call(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(res[0], mod.ExportedGlobal("steps").Get())
}

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
	for _, tt := range loops {
		f.Add(tt.module.Bytes())
	}
	for seed := range uint64(8) {
		g := &generator{rand: rand.New(rand.NewPCG(seed, 1)), funcs: 3, loops: seed%2 > 0}
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
		got := runExports(t, rt, out)
		if want := runExports(t, rt, rewritten(t, wasm, Options{StartFuel: 10_000, maxLoop: uncopied.maxLoop})); got != want {
			t.Fatalf("%s\nwith copies of loops, and without:\n%s", got, want)
		}
	})
}

// runExports runs all exported functions of a metered module one after another, and
// returns what each returned and spent.
func runExports(t *testing.T, rt wazero.Runtime, metered []byte) string {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	mod, err := rt.InstantiateWithConfig(t.Context(), metered, config)
	if err != nil {
		return "" // it imports something, or its start function trapped
	}
	defer mod.Close(t.Context())
	g := &guest{Module: mod}
	g.fuel = mod.ExportedGlobal(FuelExport).(api.MutableGlobal)
	var all strings.Builder
	functions := mod.ExportedFunctionDefinitions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		args := make([]uint64, len(functions[name].ParamTypes()))
		res, spent, err := g.run(t.Context(), 10_000, name, args...)
		if err == nil && (spent < 1 || spent > 10_000) {
			t.Fatalf("%q spent %d of 10000", name, spent)
		}
		fmt.Fprintf(&all, "%q: %d, failed %t, spent %d\n", name, res, err != nil, spent)
	}
	return all.String()
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
