package meter

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	w "talon/host/plugin/wasmtest"
)

const (
	enough = int64(1) << 40
	entry  = chargeCost            // of a loop
	called = chargeCost + callCost // of a function
)

var (
	none0 = w.Type{}
	toI32 = w.Type{Results: []w.ValType{w.I32}}
	i32s  = func(n uint32) []w.Locals { return []w.Locals{{N: n, Type: w.I32}} }
)

// spends are modules whose function "f" has a known result and cost.
var spends = map[string]struct {
	module *w.Module
	arg    int32
	want   uint64
	fuel   int64
}{
	"straight code": {
		function(i32Type, nil, w.LocalGet(0), w.I32Const(1), w.I32Add), 41, 42, called + 3,
	},
	"division": {
		function(i32Type, nil, w.I32Const(100), w.LocalGet(0), w.Op(0x6e)), 7, 14, called + 2 + divideCost,
	},
	"empty function": {
		&w.Module{
			Types:   []w.Type{i32Type, none0},
			Funcs:   []w.Func{{Code: w.Body(w.Call(1), w.I32Const(0), w.End)}, {Type: 1, Code: w.End}},
			Exports: []w.Export{{Name: "f"}},
		}, 0, 0, called + 2 + called,
	},
	"loop": {
		function(i32Type, i32s(1), w.Loop(w.Void),
			w.LocalGet(1), w.LocalGet(0), w.I32Add, w.LocalSet(1),
			w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.BrIf(0), w.End,
			w.LocalGet(1)), 10, 55, called + 1 + 10*(entry+9),
	},
	"both arms of an if are paid": {
		function(i32Type, nil, w.LocalGet(0), w.If(w.BlockType(w.I32)), w.I32Const(7), w.Else, w.I32Const(8), w.End), 1, 7, called + 4,
	},
	"inner loop is not paid by the outer": {
		function(i32Type, i32s(1), w.Loop(w.Void),
			w.I32Const(3), w.LocalSet(1),
			w.Loop(w.Void), w.LocalGet(1), w.I32Const(1), w.I32Sub, w.LocalTee(1), w.BrIf(0), w.End,
			w.LocalGet(0), w.I32Const(1), w.I32Sub, w.LocalTee(0), w.BrIf(0), w.End,
			w.LocalGet(1)), 2, 0, called + 1 + 2*(entry+7+3*(entry+5)),
	},
	"loop with parameters": {
		&w.Module{
			Types:   []w.Type{i32Type, {Params: []w.ValType{w.I32, w.I32}, Results: []w.ValType{w.I32}}},
			Funcs:   []w.Func{{Locals: i32s(1), Code: w.Body(w.LocalGet(0), w.I32Const(5), w.Open(0x03, 1), w.I32Add, w.LocalTee(1), w.LocalGet(1), w.I32Const(1), w.LocalGet(1), w.I32Const(20), w.I32LtU, w.BrIf(0), w.Drop, w.Drop, w.End, w.End)}},
			Exports: []w.Export{{Name: "f"}},
		}, 17, 22, called + 2 + entry + 10,
	},
	"memory.fill by the eighth byte": {
		function(i32Type, nil, w.I32Const(0), w.I32Const(1), w.LocalGet(0), w.MemoryFill, w.I32Const(0), w.I32Load8U), 8000, 1, called + 5 + bulkCost + 1000,
	},
	"memory.copy": {
		function(i32Type, nil, w.I32Const(0), w.I32Const(8), w.LocalGet(0), w.MemoryCopy, w.I32Const(3)), 64, 3, called + 4 + bulkCost + 8,
	},
	"memory.init": {
		&w.Module{
			Types: []w.Type{i32Type}, Memories: []w.Limits{{Min: 1}}, DataCount: true,
			Datas:   []w.Data{{Bytes: []byte("hello, world, hello, world")}},
			Funcs:   []w.Func{{Code: w.Body(w.I32Const(0), w.I32Const(0), w.LocalGet(0), w.MemoryInit(0), w.I32Const(0), w.I32Load8U, w.End)}},
			Exports: []w.Export{{Name: "f"}},
		}, 16, 'h', called + 5 + bulkCost + 2,
	},
	"memory.grow by the page": {
		function(i32Type, nil, w.LocalGet(0), w.MemoryGrow), 2, 1, called + 1 + growCost + 2*65536/8,
	},
	"table instructions by the element": {
		&w.Module{
			Types: []w.Type{i32Type}, Tables: []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 10}}},
			Elems: []w.Elem{{Funcs: []uint32{0, 0, 0, 0, 0}}},
			Funcs: []w.Func{{Code: w.Body(
				w.I32Const(0), w.I32Const(0), w.LocalGet(0), w.TableInit(0, 0),
				w.I32Const(5), w.I32Const(0), w.LocalGet(0), w.TableCopy(0, 0),
				w.I32Const(0), w.RefNull(w.FuncRef), w.LocalGet(0), w.TableFill(0),
				w.RefNull(w.FuncRef), w.LocalGet(0), w.TableGrow(0), w.End)}},
			Exports: []w.Export{{Name: "f"}},
		}, 5, 10, called + 11 + 3*bulkCost + growCost + 4*5,
	},
	"call_indirect": {
		&w.Module{
			Types: []w.Type{i32Type}, Tables: []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 2}}},
			Elems: []w.Elem{{Offset: w.Body(w.I32Const(0), w.End), Funcs: []uint32{0, 1}}},
			Funcs: []w.Func{
				{Code: w.Body(w.LocalGet(0), w.I32Const(1), w.CallIndirect(0, 0), w.End)},
				{Code: w.Body(w.LocalGet(0), w.I32Const(2), w.I32Mul, w.End)},
			},
			Exports: []w.Export{{Name: "f"}},
		}, 21, 42, called + 3 + called + 3,
	},
	"vectors": {
		function(i32Type, nil, w.LocalGet(0), w.Vec(0x11), w.Vec(0xa0), w.Vec(0x1b, 3)), -5, 5, called + 4,
	},
	"code after a branch": {
		function(i32Type, nil, w.Block(w.Void), w.Br(0), w.I32Const(1), w.MemoryGrow, w.Drop, w.End, w.I32Const(4)), 0, 4, called + 4 + growCost,
	},
	"locals by the fourth": {
		function(i32Type, i32s(39), w.LocalGet(0)), 9, 9, called + 1 + 40/localsPerFuel,
	},
	"names and other custom sections": {
		func() *w.Module {
			m := function(i32Type, nil, w.LocalGet(0))
			m.Customs = []w.Custom{{Name: ".debug_info", Bytes: []byte("x")}, {Name: "name", Bytes: []byte{1, 4, 1, 0, 1, 'f'}}}
			return m
		}(), 9, 9, called + 1,
	},
}

func TestSpend(t *testing.T) {
	for name, tt := range spends {
		for engine, config := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				g, err := metered(t, newRuntime(t, config()), tt.module.Bytes(), 0)
				if err != nil {
					t.Fatal(err)
				}
				got, spent, err := g.run(t.Context(), enough, "f", uint64(uint32(tt.arg)))
				if err != nil || got[0] != tt.want || spent != tt.fuel {
					t.Errorf("f(%d) = %d spending %d, error %v; want %d spending %d", tt.arg, got, spent, err, tt.want, tt.fuel)
				}
			})
		}
	}
}

// TestExactlyEnough checks the edge: a guest may spend its fuel to the last unit.
func TestExactlyEnough(t *testing.T) {
	tt := spends["loop"]
	g, err := metered(t, newRuntime(t, wazero.NewRuntimeConfigCompiler()), tt.module.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.run(t.Context(), tt.fuel, "f", uint64(tt.arg)); err != nil || g.left() != 0 {
		t.Errorf("with the fuel it needs: error %v, %d left", err, g.left())
	}
	if _, _, err := g.run(t.Context(), tt.fuel-1, "f", uint64(tt.arg)); err == nil || g.left() != -1 {
		t.Errorf("with one unit less: error %v, %d left", err, g.left())
	}
	if _, _, err := g.run(t.Context(), -1, "f", uint64(tt.arg)); err == nil {
		t.Error("a guest ran on negative fuel")
	}
}

// TestEndless runs functions that would not end, or not soon.
func TestEndless(t *testing.T) {
	const budget = 5_000_000
	table := func(m *w.Module) *w.Module {
		m.Types = []w.Type{none0}
		m.Tables = []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 2}}}
		m.Elems = []w.Elem{{Offset: w.Body(w.I32Const(0), w.End), Funcs: []uint32{0, 1}}}
		m.Exports = []w.Export{{Name: "f"}}
		return m
	}
	for name, m := range map[string]*w.Module{
		"empty loop":              function(none0, nil, w.Loop(w.Void), w.Br(0), w.End),
		"br_if":                   function(none0, nil, w.Loop(w.Void), w.I32Const(1), w.BrIf(0), w.End),
		"br_table":                function(none0, nil, w.Loop(w.Void), w.I32Const(5), w.BrTable(0, 0), w.End),
		"br_table to the outer":   function(none0, nil, w.Loop(w.Void), w.Block(w.Void), w.I32Const(5), w.BrTable(0, 1), w.End, w.End),
		"inner to outer loop":     function(none0, nil, w.Loop(w.Void), w.Loop(w.Void), w.Br(1), w.End, w.End),
		"out of an if":            function(none0, nil, w.Loop(w.Void), w.I32Const(1), w.If(w.Void), w.Br(1), w.End, w.End),
		"dispatch to itself":      function(none0, i32s(1), dispatchLoop(1, []uint32{0}, w.Nop, gotoLabel(0, 0, 0))),
		"dispatch back and forth": function(none0, i32s(1), dispatchLoop(2, []uint32{0, 1}, gotoLabel(0, 1, 1), w.Nop, gotoLabel(0, 0, 0))),
		"dispatch through br_if": function(none0, i32s(1), dispatchLoop(1, []uint32{0},
			w.I32Const(1), w.BrIf(0))),
		"memory.fill":   function(none0, nil, w.Loop(w.Void), w.I32Const(0), w.I32Const(0), w.I32Const(65536), w.MemoryFill, w.Br(0), w.End),
		"4 GiB fill":    function(none0, nil, w.I32Const(0), w.I32Const(0), w.I32Const(-1), w.MemoryFill),
		"memory.grow 0": function(none0, nil, w.Loop(w.Void), w.I32Const(0), w.MemoryGrow, w.Drop, w.Br(0), w.End),
		"4 GiB grow":    function(none0, nil, w.Loop(w.Void), w.I32Const(-1), w.MemoryGrow, w.Drop, w.Br(0), w.End),
		"table.grow": table(&w.Module{Funcs: []w.Func{
			{Code: w.Body(w.Loop(w.Void), w.RefNull(w.FuncRef), w.I32Const(1000), w.TableGrow(0), w.Drop, w.Br(0), w.End, w.End)}, {Code: w.End}}}),
		"indirect calls in a loop": table(&w.Module{Funcs: []w.Func{
			{Code: w.Body(w.Loop(w.Void), w.I32Const(1), w.CallIndirect(0, 0), w.Br(0), w.End, w.End)}, {Code: w.End}}}),
	} {
		for engine, config := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				g, err := metered(t, newRuntime(t, config()), m.Bytes(), 0)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := g.run(t.Context(), budget, "f"); err == nil || g.left() >= 0 {
					t.Errorf("error %v with %d left, want a trap for want of fuel", err, g.left())
				}
			})
		}
	}
}

// TestEndlessRecursion ends by fuel or by the engine's own limit on the stack.
func TestEndlessRecursion(t *testing.T) {
	m := &w.Module{
		Types:   []w.Type{none0},
		Funcs:   []w.Func{{Code: w.Body(w.Call(1), w.End)}, {Code: w.Body(w.Call(0), w.Call(0), w.End)}},
		Exports: []w.Export{{Name: "f"}},
	}
	for engine, config := range engines {
		for _, fuel := range []int64{1000, enough} {
			g, err := metered(t, newRuntime(t, config()), m.Bytes(), 0)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = g.run(t.Context(), fuel, "f")
			if err == nil || g.left() >= 0 && !strings.Contains(err.Error(), "stack overflow") {
				t.Errorf("%s with %d fuel: error %v, %d left", engine, fuel, err, g.left())
			}
		}
	}
}

func TestStart(t *testing.T) {
	m := function(none0, nil, w.Loop(w.Void), w.Br(0), w.End)
	m.Start = w.Index(0)
	quick := function(none0, nil, w.Nop)
	quick.Start = w.Index(0)
	for engine, config := range engines {
		t.Run(engine, func(t *testing.T) {
			rt := newRuntime(t, config())
			if _, err := metered(t, rt, m.Bytes(), 1_000_000); err == nil || !strings.Contains(err.Error(), "unreachable") {
				t.Errorf("a start function that never ends: error %v", err)
			}
			g, err := metered(t, rt, quick.Bytes(), called)
			if err != nil || g.left() != 0 {
				t.Errorf("a start function within its fuel: error %v", err)
			}
		})
	}
}

// TestTableMaximum checks that a table cannot outgrow its limit little by little.
func TestTableMaximum(t *testing.T) {
	m := &w.Module{
		Types: []w.Type{toI32}, Tables: []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 1}}, {Type: w.ExternRef, Limits: w.Limits{Min: 0, Max: w.Index(3)}}},
		Funcs: []w.Func{
			{Code: w.Body(w.RefNull(w.FuncRef), w.I32Const(6), w.TableGrow(0), w.End)},
			{Code: w.Body(w.RefNull(w.ExternRef), w.I32Const(2), w.TableGrow(1), w.End)},
		},
		Exports: []w.Export{{Name: "f"}, {Name: "g", Index: 1}},
	}
	out, err := Rewrite(m.Bytes(), Options{MaxTable: 10, StartFuel: enough})
	if err != nil {
		t.Fatal(err)
	}
	mod, err := newRuntime(t, wazero.NewRuntimeConfigCompiler()).Instantiate(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	var got []int32
	for _, name := range []string{"f", "f", "g", "g"} {
		res, err := mod.ExportedFunction(name).Call(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, int32(res[0]))
	}
	if want := []int32{1, -1, 0, -1}; !slices.Equal(got, want) {
		t.Errorf("table.grow returned %d, want %d", got, want)
	}
}

func TestNamesAreKept(t *testing.T) {
	m := function(none0, nil, w.Unreachable)
	m.Customs = []w.Custom{{Name: "name", Bytes: []byte{
		1, 8, 1, 0, 5, 't', 'h', 'i', 'n', 'g', // functions
		2, 6, 1, 0, 1, 0, 1, 'x', // locals
		7, 2, 0xff, 0xff, // unknown
	}}}
	g, err := metered(t, newRuntime(t, wazero.NewRuntimeConfigCompiler()), m.Bytes(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.run(t.Context(), 10, "f"); err == nil || !strings.Contains(err.Error(), "thing") {
		t.Errorf("the trap does not name the function: %v", err)
	}
}

func TestInputIsNotChanged(t *testing.T) {
	in := spends["table instructions by the element"].module.Bytes()
	before := slices.Clone(in)
	if _, err := Rewrite(in, Options{}); err != nil || !slices.Equal(in, before) {
		t.Errorf("Rewrite changed its input, or failed: %v", err)
	}
}

func TestNegativeStartFuel(t *testing.T) {
	for _, fuel := range []int64{-1, math.MinInt64} {
		if _, err := Rewrite((&w.Module{}).Bytes(), Options{StartFuel: fuel}); err == nil {
			t.Errorf("start fuel %d was accepted", fuel)
		}
	}
	if _, err := Rewrite((&w.Module{}).Bytes(), Options{StartFuel: math.MaxInt64}); err != nil {
		t.Error(err)
	}
	if _, err := Rewrite([]byte("\x00asm\x0d\x00\x01\x00"), Options{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a component: error %v", err)
	}
}
