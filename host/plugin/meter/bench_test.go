package meter

import (
	"slices"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	w "talon/host/plugin/wasmtest"
)

// overhead runs two functions in turns, so that both see the same machine, and
// reports the faster quarter of each and what the second takes more than the
// first, in percent: of several pairs the median, the lowest and the highest.
func overhead(b *testing.B, arg uint64, pairs ...[2]api.Function) {
	times := make([][2][]float64, len(pairs))
	for b.Loop() {
		for i := range pairs {
			for j, f := range pairs[i] {
				start := time.Now()
				if _, err := f.Call(b.Context(), arg); err != nil {
					b.Fatal(err)
				}
				times[i][j] = append(times[i][j], float64(time.Since(start)))
			}
		}
	}
	var quarter [2][]float64
	var more []float64
	for i := range times {
		for j := range quarter {
			slices.Sort(times[i][j])
			quarter[j] = append(quarter[j], times[i][j][len(times[i][j])/4])
		}
		more = append(more, 100*(quarter[1][i]/quarter[0][i]-1))
	}
	slices.Sort(quarter[0])
	slices.Sort(quarter[1])
	slices.Sort(more)
	middle := len(pairs) / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(quarter[0][middle]/1e3, "plain-µs")
	b.ReportMetric(quarter[1][middle]/1e3, "metered-µs")
	b.ReportMetric(more[middle], "%overhead")
	if len(pairs) > 1 {
		b.ReportMetric(more[0], "%lowest")
		b.ReportMetric(more[len(more)-1], "%highest")
	}
}

func BenchmarkOverheadGo(b *testing.B) {
	wasm := goModule(b)
	out, err := Rewrite(wasm, Options{StartFuel: 1 << 62})
	if err != nil {
		b.Fatal(err)
	}
	rt := newRuntime(b, wazero.NewRuntimeConfigCompiler())
	plain, g := startGo(b, rt, wasm), startGo(b, rt, out)
	for _, name := range goFunctions {
		b.Run(name, func(b *testing.B) {
			_, spent, err := g.run(b.Context(), 1<<62, name, 20)
			if err != nil {
				b.Fatal(err)
			}
			overhead(b, 20, [2]api.Function{plain.ExportedFunction(name), g.ExportedFunction(name)})
			b.ReportMetric(float64(spent), "fuel")
		})
	}
}

// tight are loops as other compilers make them.
var tight = map[string]*w.Module{
	"i32 sum": function(i32Type, i32s(1), w.Loop(w.Void),
		w.LocalGet(1), w.I32Const(31), w.I32Mul, w.LocalGet(0), w.I32Add, w.LocalSet(1),
		w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.BrIf(0), w.End, w.LocalGet(1)),
	"byte scan": function(i32Type, i32s(2), w.Loop(w.Void),
		w.LocalGet(0), w.I32Const(0xffff), w.I32And, w.I32Load8U, w.LocalTee(1),
		w.I32Const('"'), w.I32Eq, w.If(w.Void), w.LocalGet(2), w.I32Const(1), w.I32Add, w.LocalSet(2), w.End,
		w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.BrIf(0), w.End, w.LocalGet(2)),
	"calls": {
		Types: []w.Type{i32Type},
		Funcs: []w.Func{
			{Locals: i32s(1), Code: w.Body(w.Loop(w.Void),
				w.LocalGet(1), w.Call(1), w.LocalSet(1),
				w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.BrIf(0), w.End, w.LocalGet(1), w.End)},
			{Code: w.Body(w.LocalGet(0), w.I32Const(7), w.I32Add, w.End)},
		},
		Exports: []w.Export{{Name: "f"}},
	},
}

// BenchmarkOverheadTight runs each loop in several places: where the code of so small
// a loop lies makes it up to a third faster or slower, metered or not.
func BenchmarkOverheadTight(b *testing.B) {
	const places = 12
	shift := w.Body(w.LocalGet(1), w.I32Const(1000), w.I32Mul, w.LocalSet(1)) // it is zero
	for name, m := range tight {
		b.Run(name, func(b *testing.B) {
			rt := newRuntime(b, wazero.NewRuntimeConfigCompiler())
			var pairs [][2]api.Function
			for i := range places {
				moved := *m
				moved.Funcs = slices.Clone(m.Funcs)
				moved.Funcs[0].Code = w.Body(repeat(i, shift), m.Funcs[0].Code)
				plain, err := rt.InstantiateWithConfig(b.Context(), moved.Bytes(), wazero.NewModuleConfig().WithName(""))
				if err != nil {
					b.Fatal(err)
				}
				g, err := metered(b, rt, moved.Bytes(), 1<<62)
				if err != nil {
					b.Fatal(err)
				}
				pairs = append(pairs, [2]api.Function{plain.ExportedFunction("f"), g.ExportedFunction("f")})
			}
			overhead(b, 100_000, pairs...)
		})
	}
}

// BenchmarkEndlessLoop measures how long a budget of 5,000,000 lasts in loops
// that do nothing else.
func BenchmarkEndlessLoop(b *testing.B) {
	for name, m := range map[string]*w.Module{
		"empty":    function(none0, nil, w.Loop(w.Void), w.Br(0), w.End),
		"dispatch": function(none0, i32s(1), dispatchLoop(1, []uint32{0}, w.Nop, gotoLabel(0, 0, 0))),
		"grow":     function(none0, nil, w.Loop(w.Void), w.I32Const(0), w.MemoryGrow, w.Drop, w.Br(0), w.End),
		"fill":     function(none0, nil, w.Loop(w.Void), w.I32Const(0), w.I32Const(0), w.I32Const(65536), w.MemoryFill, w.Br(0), w.End),
		"fill 1":   function(none0, nil, w.Loop(w.Void), w.I32Const(0), w.I32Const(0), w.I32Const(1), w.MemoryFill, w.Br(0), w.End),
		"ref.func": func() *w.Module {
			m := function(none0, nil, w.Loop(w.Void), w.RefFunc(0), w.Drop, w.Br(0), w.End)
			m.Exports[0].Name = "f"
			return m
		}(),
		"divide": function(none0, i32s(1), w.Loop(w.Void), w.LocalGet(0), w.I32Const(7), w.Op(0x6d), w.I32Const(1), w.I32Add, w.LocalSet(0), w.Br(0), w.End),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				rt := newRuntime(b, wazero.NewRuntimeConfigCompiler())
				g, err := metered(b, rt, m.Bytes(), 0)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, _, err := g.run(b.Context(), 5_000_000, "f"); err == nil || g.left() >= 0 {
					b.Fatalf("error %v, %d left", err, g.left())
				}
			}
		})
	}
}

func BenchmarkRewrite(b *testing.B) {
	wasm := goModule(b)
	var out []byte
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, err = Rewrite(wasm, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(wasm)), "bytes")
	b.ReportMetric(100*float64(len(out)-len(wasm))/float64(len(wasm)), "%growth")
}
