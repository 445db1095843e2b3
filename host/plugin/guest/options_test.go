package guest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"talon/host/plugin/wasmtest"
	"talon/internal/race"
	"talon/internal/testkit"
)

// TestBudgets chooses between operator, manifest and default.
func TestBudgets(t *testing.T) {
	const asks = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "budgets": {"fuel": 3000, "memory_bytes": 1048576, "output_bytes": 100}}`
	const asksTooMuch = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy"], "budgets": {"fuel": 90000000}}`
	type budgets struct{ fuel, memory, output int64 }
	for _, test := range []struct {
		name     string
		manifest string
		operator Budgets
		limits   Limits
		want     budgets
		refusal  string
	}{
		{name: "defaults", manifest: plainManifest, want: budgets{defaultFuel, defaultMemory, defaultOutput}},
		{name: "defaults above the limits", manifest: plainManifest, limits: Limits{Fuel: 1000, Memory: 1 << 20, Output: 50}, want: budgets{1000, 1 << 20, 50}},
		{name: "manifest", manifest: asks, want: budgets{3000, 1 << 20, 100}},
		{name: "manifest above a limit", manifest: asks, limits: Limits{Fuel: 2999}, refusal: "asks for 3000 fuel a call; the limit is 2999"},
		{name: "operator", manifest: asks, operator: Budgets{Fuel: 5, Memory: 2 << 20, Output: 7}, want: budgets{5, 2 << 20, 7}},
		{name: "operator against a manifest above the limit", manifest: asksTooMuch, operator: Budgets{Fuel: 5}, want: budgets{5, defaultMemory, defaultOutput}},
		{name: "operator above a limit", manifest: asks, operator: Budgets{Memory: 1 << 40}, refusal: "budget memory = 1099511627776: want 1 to 67108864"},
		{name: "operator below zero", manifest: asks, operator: Budgets{LogRate: -1}, refusal: "budget log rate = -1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, _, err := load(t, guest{manifest: test.manifest}.assemble(), func(o *Options) { o.Budgets, o.Limits = test.operator, test.limits })
			if err != nil || test.refusal != "" {
				if err == nil || test.refusal == "" || !strings.Contains(err.Error(), test.refusal) {
					t.Errorf("%v, want %q", err, test.refusal)
				}
				return
			}
			if got := (budgets{m.Fuel(), m.MemoryLimit(), int64(m.budgets.Output)}); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestNamesOfPlugins(t *testing.T) {
	for name, ok := range map[string]bool{
		"lists": true, "A-1_b": true, "": false, "../x": false, "a.b": false, "a b": false, strings.Repeat("x", 65): false,
	} {
		if _, _, err := load(t, guest{}.assemble(), func(o *Options) { o.Name = name }); (err == nil) != ok {
			t.Errorf("%q: %v, want it allowed: %v", name, err, ok)
		}
	}
}

// TestWhatAModuleTells loads one that serves two worlds.
func TestWhatAModuleTells(t *testing.T) {
	g := getting(1)
	g.manifest = `{"talon_manifest": 1, "name": "guest", "worlds": ["policy", "strategy"], "functions": ["step", "push", "admit"], "capabilities": ["store.get", "kv.set"]}`
	g.change = func(m *wasmtest.Module) {
		for _, e := range m.Exports {
			if e.Name == Admit.export() {
				for _, f := range []Func{Push, Step} {
					e.Name = f.export()
					m.Exports = append(m.Exports, e)
				}
			}
		}
	}
	m := mustLoad(t, g.assemble(), nil)
	if got := strings.Join(m.Functions(), " "); got != "admit push step" {
		t.Errorf("functions %q", got)
	}
	if got := strings.Join(m.Imports(), " "); got != "store.get" {
		t.Errorf("imports %q, want only what is in the import section", got)
	}
	if !m.Calls(Push) || m.Calls(Query) || m.Manifest().Name != "guest" || m.Code() != "" {
		t.Errorf("calls push %v, query %v; name %q, code in %q", m.Calls(Push), m.Calls(Query), m.Manifest().Name, m.Code())
	}
	if m.Instances() != 1 || m.MemoryUsed() != 4<<16 {
		t.Errorf("%d instances with %d bytes, want one with 4 pages", m.Instances(), m.MemoryUsed())
	}
}

// TestLoadingIsBounded loads modules that are as slow to compile, or as large, as
// the limits of package meter allow, or larger.
func TestLoadingIsBounded(t *testing.T) {
	if testing.Short() || race.Detector {
		t.Skip("takes many seconds")
	}
	many := func(n int, code wasmtest.Code, locals ...wasmtest.Locals) []byte {
		return guest{change: func(m *wasmtest.Module) {
			for range n {
				m.Funcs = append(m.Funcs, wasmtest.Func{Code: wasmtest.Body(code, wasmtest.End), Locals: locals})
			}
		}}.assemble()
	}
	repeated := func(n int, c ...wasmtest.Code) wasmtest.Code { return bytes.Repeat(wasmtest.Body(c...), n) }
	nested := wasmtest.Body(repeated(7900, wasmtest.Block(wasmtest.Void)), repeated(7900, wasmtest.End))
	loops := repeated(900, wasmtest.Loop(wasmtest.Void), wasmtest.End)
	loads := repeated(40_000, wasmtest.I32Const(1), wasmtest.I32Load8U, wasmtest.Drop)
	ifs := repeated(2000, wasmtest.I32Const(3), wasmtest.If(wasmtest.Void), wasmtest.I32Const(1), wasmtest.LocalSet(1), wasmtest.End)
	table := wasmtest.Body(wasmtest.I32Const(0), wasmtest.BrTable(make([]uint32, 30_000)...))
	const complex = "too complex"
	for _, test := range []struct {
		name string
		wasm []byte
		want string // in the error; empty for none
	}{
		{"99,000 functions", many(99_000, nil), ""},
		{"deep blocks", many(4, nested), ""},
		{"deep blocks in many functions", many(100, nested), complex},
		{"loops", many(1, loops), ""},
		{"loops in many functions", many(100, loops), complex},
		{"merges", many(4, ifs, wasmtest.Locals{N: 1000, Type: wasmtest.I32}), ""},
		{"merges in many functions", many(50, ifs, wasmtest.Locals{N: 1000, Type: wasmtest.I32}), complex},
		{"branch targets", many(15, table), ""},
		{"branch targets in many functions", many(40, table), complex},
		{"loads", many(4, loads), ""},
		{"long names", guest{change: func(m *wasmtest.Module) {
			name := bytes.Repeat([]byte("x"), 4<<20)
			entry := append(append([]byte{1, 0}, wasmtest.Uint(uint64(len(name)))...), name...)
			m.Customs = []wasmtest.Custom{{Name: "name", Bytes: append(append([]byte{1}, wasmtest.Uint(uint64(len(entry)))...), entry...)}}
		}}.assemble(), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "branch targets" {
				testkit.Nightly(t, "it compiles for longest, and the others reach the limits as well")
			}
			peak, start := watchHeap(t), testkit.CPU()
			m, err := Load(t.Context(), test.wasm, Options{Name: "guest"})
			took, heap := testkit.CPU()-start, peak()
			t.Logf("%d kB: %v, %d MB", len(test.wasm)>>10, took.Round(time.Millisecond), heap>>20)
			if err == nil {
				m.Close(context.Background())
			}
			if err == nil && test.want != "" || err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if took > compileTime || heap > 1<<30 {
				t.Errorf("it took %v and %d MB", took, heap>>20)
			}
		})
	}
}

func TestCompilingStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, guest{}.assemble(), Options{Name: "guest"}); err == nil || err != ctx.Err() {
		t.Errorf("%v, want that the context is done", err)
	}
}
