package guest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"talon/host/plugin/wasmtest"
	"talon/internal/testkit"
)

// TestLoadingIsBounded loads modules that are as slow to compile, or as large, as
// the limits of package meter allow, or larger.
func TestLoadingIsBounded(t *testing.T) {
	if testing.Short() || testkit.RaceDetector {
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
