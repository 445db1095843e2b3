package meter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero"

	w "talon/host/plugin/wasmtest"
	"talon/internal/testkit"
)

// uncopied are options with which no loop is copied: none has only one byte.
var uncopied = Options{maxLoop: 1}

// rounds is a function whose dispatch loop consists of these parts, with the argument
// in local 1, to count down, and its result in local 2. Local 0 is the dispatch loop's.
func rounds(parts ...w.Code) *w.Module {
	targets := make([]uint32, len(parts))
	for i := range targets {
		targets[i] = uint32(i)
	}
	m := function(i32Type, i32s(2),
		w.LocalGet(0), w.LocalSet(1), w.I32Const(0), w.LocalSet(0),
		dispatchLoop(len(parts), targets, parts...), w.LocalGet(2))
	m.Globals = []w.Global{{Type: w.I32, Mutable: true, Init: w.Body(w.I32Const(0), w.End)}}
	return m
}

var (
	addOne    = w.Body(w.LocalGet(2), w.I32Const(1), w.I32Add, w.LocalSet(2))
	addMany   = w.Body(w.LocalGet(2), w.I32Const(100), w.I32Add, w.LocalSet(2))
	countDown = w.Body(w.LocalGet(1), w.I32Const(1), w.I32Sub, w.LocalTee(1))
	isOdd     = w.Body(w.LocalGet(1), w.I32Const(1), w.I32And)
)

// whileNotZero jumps back to a label while the count is not zero, out of that many blocks.
func whileNotZero(label int32, depth uint32) w.Code {
	return w.Body(countDown, w.If(w.Void), gotoLabel(0, label, depth), w.End)
}

// loops are functions with small loops, and how many of these are copied.
var loops = map[string]struct {
	module *w.Module
	copies int
}{
	"condition first": {countdown(1, nil), 1},
	"to itself":       {countdown(2, nil), 1},
	"to the top":      {countdown(0, nil), 1},
	"left in the middle": {rounds(addOne, w.Body(
		countDown, w.I32Eqz, w.If(w.Void), gotoLabel(0, 2, 2), w.End,
		addMany, gotoLabel(0, 0, 1)), addOne), 1},
	"left for the outside": {rounds(addOne, w.Body(
		countDown, w.I32Eqz, w.If(w.Void), w.LocalGet(2), w.Br(3), w.End,
		addMany, gotoLabel(0, 0, 1)), addOne), 1},
	"left by br_if": {rounds(addOne, w.Body(
		countDown, w.I32Eqz, w.BrIf(0), addMany, gotoLabel(0, 0, 1)), addOne), 1},
	"return": {rounds(addOne, w.Body(
		countDown, w.I32Eqz, w.If(w.Void), w.LocalGet(2), w.Return, w.End,
		gotoLabel(0, 0, 1)), addOne), 1},
	"trap": {rounds(addOne, w.Body(
		w.LocalGet(1), w.I32Const(-3), w.I32Eq, w.If(w.Void), w.Unreachable, w.End,
		w.LocalGet(1), w.I32Const(1), w.I32Sub, w.LocalSet(1), gotoLabel(0, 0, 1)), addOne), 1},
	"two jumps to a label": {rounds(addOne, w.Body(
		countDown, w.I32Eqz, w.If(w.Void), gotoLabel(0, 2, 2), w.End,
		isOdd, w.If(w.Void), gotoLabel(0, 0, 2), w.End,
		addMany, gotoLabel(0, 0, 1)), addOne), 2},
	"three jumps to a label": {rounds(addOne, w.Body(
		countDown, w.I32Eqz, w.If(w.Void), gotoLabel(0, 2, 2), w.End,
		isOdd, w.If(w.Void), gotoLabel(0, 0, 2), w.End, addMany,
		w.LocalGet(1), w.I32Const(4), w.I32Eq, w.If(w.Void), gotoLabel(0, 0, 2), w.End,
		addMany, gotoLabel(0, 0, 1)), addOne), 2},
	"jumps forward within": {rounds(addOne, w.Body(
		isOdd, w.If(w.Void), gotoLabel(0, 3, 4), w.End, addMany),
		w.Body(isOdd, w.If(w.Void), addOne, w.Else, gotoLabel(0, 3, 3), w.End, addMany),
		whileNotZero(0, 2), addOne), 1},
	"in a block": {rounds(w.Body(
		w.Block(w.Void), isOdd, w.BrIf(0), addOne, countDown, w.I32Eqz, w.BrIf(0), gotoLabel(0, 0, 2), w.End, addMany), w.Nop), 1},
	"in an else": {rounds(w.Body(
		countDown, w.I32Eqz, w.If(w.Void), addMany, w.Else, addOne, gotoLabel(0, 0, 2), w.End, addOne), w.Nop), 1},
	"in another": {rounds(addMany,
		addOne, whileNotZero(1, 2),
		w.Body(w.LocalGet(2), w.I32Const(150), w.I32LtU, w.If(w.Void), w.I32Const(3), w.LocalSet(1), gotoLabel(0, 0, 1), w.End)), 1},
	"one after another": {rounds(addOne, w.Body(whileNotZero(0, 3), w.I32Const(4), w.LocalSet(1)),
		addMany, whileNotZero(2, 1)), 2},
	"all kinds of instructions": {rounds(w.Body(
		w.GlobalGet(0), w.I32Const(4), w.I32Add, w.GlobalSet(0),
		w.GlobalGet(0), w.LocalGet(1), w.Mem(0x36, 2, 0), w.GlobalGet(0), w.Mem(0x28, 2, 0),
		w.F64Const(2), w.Op(0x9f), w.F64Const(3), w.Op(0xa0), w.Op(0xaa), w.I32Add,
		w.I64Const(7), w.Op(0x7a), w.Op(0xa7), w.Op(0x3f, 0), isOdd, w.Op(0x1b), w.I32Add,
		w.LocalGet(2), w.I32Add, w.LocalTee(2), w.Op(0x1a), w.Nop), whileNotZero(0, 1)), 1},

	"a value below the jump": {rounds(addOne, w.Body(
		w.LocalGet(1), countDown, w.If(w.Void), gotoLabel(0, 0, 2), w.End,
		w.LocalGet(2), w.I32Add, w.LocalSet(2)), addOne), 0},
	"code after the jump": {rounds(addOne, w.Body(
		countDown, w.If(w.Void), gotoLabel(0, 0, 2), w.Nop, w.End), addOne), 0},
	"an else after the jump": {rounds(addOne, w.Body(
		countDown, w.If(w.Void), gotoLabel(0, 0, 2), w.Else, addMany, w.End), addOne), 0},
	"a block with a result": {rounds(addOne, w.Body(
		w.Block(w.BlockType(w.I32)), countDown, w.End, w.If(w.Void), gotoLabel(0, 0, 2), w.End), addOne), 0},
	"code that is not reached": {rounds(addOne, w.Body(
		isOdd, w.If(w.Void), w.Br(0), w.Op(0x1a), w.End, whileNotZero(0, 2)), addOne), 0},
	"two blocks deep": {rounds(addOne, w.Body(
		w.Block(w.Void), whileNotZero(0, 3), w.End), addOne), 0},
	"a loop within": {rounds(addOne, w.Body(
		w.Loop(w.Void), isOdd, w.I32Eqz, w.If(w.Void), w.End, w.End, whileNotZero(0, 2)), addOne), 0},
	"too long":            {rounds(addOne, w.Body(repeat(maxLoop, w.Nop), whileNotZero(0, 2)), addOne), 0},
	"charged at the head": {rounds(w.Body(w.I32Const(0), w.BrIf(1)), whileNotZero(0, 1)), 0},
}

// TestLoops runs functions with small loops: as they are, and metered with and without
// copies of loops. They must do the same, and notice at the same point that the fuel is
// spent.
func TestLoops(t *testing.T) {
	for name, tt := range loops {
		wasm := tt.module.Bytes()
		for engine, config := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				rt := newRuntime(t, config())
				plain, err := rt.InstantiateWithConfig(t.Context(), wasm, wazero.NewModuleConfig().WithName(""))
				if err != nil {
					t.Fatal(err)
				}
				copied, err := instantiate(t, rt, wasm, Options{})
				if err != nil {
					t.Fatal(err)
				}
				without, err := instantiate(t, rt, wasm, uncopied)
				if err != nil {
					t.Fatal(err)
				}
				for _, arg := range []uint64{1, 2, 3, 9} {
					res, err := plain.ExportedFunction("f").Call(t.Context(), arg)
					want := fmt.Sprint(res, err != nil)
					_, spent, _ := without.run(t.Context(), enough, "f", arg)
					for _, fuel := range []int64{enough, spent, spent - 1, spent / 2, spent / 4} {
						a, spentA, errA := without.run(t.Context(), fuel, "f", arg)
						b, spentB, errB := copied.run(t.Context(), fuel, "f", arg)
						if got := fmt.Sprint(b, errB != nil); got != fmt.Sprint(a, errA != nil) || spentA != spentB {
							t.Errorf("f(%d) with %d fuel: %s for %d with a copy, %v for %d without", arg, fuel, got, spentB, a, spentA)
						} else if fuel == enough && got != want {
							t.Errorf("f(%d): %s, want %s", arg, got, want)
						}
					}
				}
			})
		}
		t.Run(name+"/copies", func(t *testing.T) {
			with, without := rewritten(t, wasm, Options{}), rewritten(t, wasm, uncopied)
			if n := bytes.Count(with, []byte{opLoop, blockVoid}) - bytes.Count(without, []byte{opLoop, blockVoid}); n != tt.copies {
				t.Errorf("%d loops are copied, want %d", n, tt.copies)
			}
		})
	}
}

func rewritten(t testing.TB, wasm []byte, opt Options) []byte {
	t.Helper()
	out, err := Rewrite(wasm, opt)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRandomLoops runs random programs with and without copies of loops.
func TestRandomLoops(t *testing.T) {
	programs := testkit.Sized(50, 150)
	rt := newRuntime(t, wazero.NewRuntimeConfigCompiler())
	copied := 0
	for seed := range uint64(programs) {
		g := &generator{rand: rand.New(rand.NewPCG(seed, 2)), funcs: 1 + int(seed%3), loops: true}
		wasm := g.module().Bytes()
		if bytes.Equal(rewritten(t, wasm, Options{}), rewritten(t, wasm, uncopied)) {
			continue
		}
		copied++
		for _, fuel := range []int64{100_000, 5_000, 1_000, 300} {
			var results [2]string
			for i, opt := range []Options{{}, uncopied} {
				guest, err := instantiate(t, rt, wasm, opt)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				res, spent, err := guest.run(t.Context(), fuel, "f", 3)
				steps := guest.ExportedGlobal("steps").Get()
				results[i] = fmt.Sprintf("result %d, error %t, %d spent, %d steps", res, err != nil, spent, steps)
				guest.Close(t.Context())
			}
			if results[0] != results[1] {
				t.Fatalf("seed %d with %d fuel: %s with copies, %s without", seed, fuel, results[0], results[1])
			}
		}
	}
	t.Logf("%d of %d programs have loops that are copied", copied, programs)
	if copied < programs/5 {
		t.Errorf("%d of %d programs have loops that are copied: the generator is off balance", copied, programs)
	}
}

// TestLoopLimits checks that no module is refused for the copies of its loops.
func TestLoopLimits(t *testing.T) {
	loop := func(i int, n int) w.Code { return whileNotZero(int32(i), uint32(n-i)) }
	for _, n := range []int{1000, maxBlocks / 3} { // too many merges, too many blocks
		parts := make([]w.Code, n)
		for i := range parts {
			parts[i] = loop(i, n)
		}
		wasm := rounds(parts...).Bytes()
		if !bytes.Equal(rewritten(t, wasm, Options{}), rewritten(t, wasm, uncopied)) {
			t.Errorf("%d loops are copied", n)
		}
	}

	// Many functions are less complex than all of them.
	const n = 100
	parts := make([]w.Code, n)
	for i := range parts {
		parts[i] = loop(i, n)
	}
	m := rounds(parts...)
	one := len(rewritten(t, m.Bytes(), Options{})) - len(rewritten(t, m.Bytes(), uncopied))
	for range 20 {
		m.Funcs = append(m.Funcs, m.Funcs[0])
	}
	all := len(rewritten(t, m.Bytes(), Options{})) - len(rewritten(t, m.Bytes(), uncopied))
	if one <= 0 || all <= one || all >= 20*one {
		t.Errorf("the loops of one function take %d bytes, those of 21 %d", one, all)
	}
}
