package meter

import (
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"

	w "talon/host/plugin/wasmtest"
)

// dispatchLoop is a loop as the Go compiler makes them, on local 0: a table of
// labels for its values, then the code after each of n labels.
func dispatchLoop(n int, targets []uint32, parts ...w.Code) w.Code {
	c := w.Body(w.Loop(w.Void), repeat(n, w.Block(w.Void)), w.LocalGet(0), w.BrTable(append(targets, uint32(n-1))...))
	for _, p := range parts[:n-1] {
		c = w.Body(c, w.End, p)
	}
	return w.Body(c, w.End, w.Body(parts[n-1:]...), w.End)
}

// gotoLabel sets local p and branches to the dispatch loop at this depth.
func gotoLabel(p uint32, value int32, depth uint32) w.Code {
	return w.Body(w.I32Const(value), w.LocalSet(p), w.Br(depth))
}

// countdown is a dispatch loop that goes round as often as its argument says:
//
//	0: skip to 2
//	1: never reached from above; falls through
//	2: if --n != 0 goto back; fall out
func countdown(back int32, edit func(jumpBack w.Code) w.Code) *w.Module {
	jump := gotoLabel(0, back, 1)
	if edit != nil {
		jump = edit(jump)
	}
	return function(i32Type, i32s(2),
		w.LocalGet(0), w.LocalSet(1), w.I32Const(0), w.LocalSet(0),
		dispatchLoop(3, []uint32{0, 1, 2},
			gotoLabel(0, 2, 2),
			w.Body(w.LocalGet(2), w.I32Const(100), w.I32Add, w.LocalSet(2)),
			w.LocalGet(2), w.I32Const(1), w.I32Add, w.LocalSet(2),
			w.LocalGet(1), w.I32Const(1), w.I32Sub, w.LocalTee(1), w.If(w.Void), jump, w.End),
		w.LocalGet(2))
}

// TestDispatch checks what jumps of a dispatch loop cost, and that the loop is
// charged at its head as soon as one branch to it is not such a jump.
func TestDispatch(t *testing.T) {
	const (
		once = called + 4 + 2 + 3 + 4 + 4 + 5 + 3 + 1 // the function from top to bottom
		head = once - called + entry                  // the same, paid at the head of the loop
		part = 4                                      // the code after label 1
		tail = 4 + 5 + 3                              // the code after label 2, up to its jump
		back = dispatchCost + chargeCost
		top  = 3 // the code after label 0

		frame = 4 / localsPerFuel // of the function's locals
	)
	forms := map[string]struct {
		back int32
		edit func(w.Code) w.Code
		want uint64
		fuel int64
	}{
		"back to 2": {2, nil, 5, once + 4*(tail+back)},
		"back to 1": {1, nil, 405, once + 4*(part+tail+back)},
		"back to 0": {0, nil, 5, once + 4*(top+part+tail+back)},
		"a value beyond the table goes to the default": {99, nil, 5, once + 4*(tail+back)},
		"a negative value too":                         {-1, nil, 5, once + 4*(tail+back)},
		"br_if": {2, func(w.Code) w.Code {
			return w.Body(w.I32Const(2), w.LocalSet(0), w.I32Const(1), w.BrIf(1))
		}, 5, called + 5 + 6*(head+1-5)},
		"br_table": {2, func(w.Code) w.Code {
			return w.Body(w.I32Const(2), w.LocalSet(0), w.I32Const(0), w.BrTable(1))
		}, 5, called + 5 + 6*(head+1-5)},
		"something in between": {2, func(w.Code) w.Code {
			return w.Body(w.I32Const(2), w.LocalSet(0), w.Nop, w.Br(1))
		}, 5, called + 5 + 6*(head-5)},
		"a computed value": {2, func(w.Code) w.Code {
			return w.Body(w.I32Const(1), w.I32Const(1), w.I32Add, w.LocalSet(0), w.Br(1))
		}, 5, called + 5 + 6*(head+2-5)},
		"another local": {2, func(w.Code) w.Code {
			return w.Body(w.I32Const(2), w.LocalSet(0), w.I32Const(7), w.LocalSet(3), w.Br(1))
		}, 5, 0},
	}
	for name, tt := range forms {
		m := countdown(tt.back, tt.edit)
		m.Funcs[0].Locals[0].N = 3
		for engine, config := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				rt := newRuntime(t, config())
				plain, err := rt.Instantiate(t.Context(), m.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				want, err := plain.ExportedFunction("f").Call(t.Context(), 5)
				if err != nil || want[0] != tt.want {
					t.Fatalf("the original returns %d, error %v; want %d", want, err, tt.want)
				}
				g, err := metered(t, rt, m.Bytes(), 0)
				if err != nil {
					t.Fatal(err)
				}
				got, spent, err := g.run(t.Context(), enough, "f", 5)
				if err != nil || got[0] != tt.want {
					t.Errorf("returns %d, error %v; want %d", got, err, tt.want)
				}
				if tt.fuel != 0 && spent != tt.fuel+frame {
					t.Errorf("spends %d, want %d", spent, tt.fuel+frame)
				}
			})
		}
	}
}

// TestDispatchNested has a dispatch loop within another, and jumps from the
// inner one to labels of the outer, behind and ahead.
func TestDispatchNested(t *testing.T) {
	for _, spoiled := range []bool{false, true} {
		t.Run(fmt.Sprintf("spoiled=%t", spoiled), func(t *testing.T) {
			spoil := w.Nop
			if spoiled {
				spoil = w.Body(w.I32Const(0), w.BrIf(2)) // to the inner loop
			}
			inner := dispatchLoop(3, []uint32{0, 1, 2},
				w.Body(spoil, w.I32Const(2), w.LocalSet(0), w.Br(2)),
				w.Body(w.LocalGet(2), w.I32Const(1000), w.I32Add, w.LocalSet(2)),
				w.LocalGet(2), w.I32Const(1), w.I32Add, w.LocalSet(2),
				w.LocalGet(1), w.I32Const(1), w.I32Sub, w.LocalTee(1),
				w.If(w.Void), gotoLabel(0, 0, 3), w.End, // to label 0 of the outer loop
				gotoLabel(0, 1, 2)) // to its label 1
			inner = w.Body(w.I32Const(0), w.LocalSet(0), inner)
			m := function(i32Type, i32s(2), w.LocalGet(0), w.LocalSet(1), w.I32Const(0), w.LocalSet(0),
				dispatchLoop(2, []uint32{0, 1}, inner, w.Nop), w.LocalGet(2)).Bytes()

			rt := newRuntime(t, wazero.NewRuntimeConfigCompiler())
			plain, err := rt.Instantiate(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			want, err := plain.ExportedFunction("f").Call(t.Context(), 4)
			if err != nil {
				t.Fatal(err)
			}
			g, err := metered(t, rt, m, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, spent, err := g.run(t.Context(), enough, "f", 4)
			if err != nil || got[0] != want[0] {
				t.Errorf("returns %d, error %v; want %d", got, err, want)
			}
			if spent < 4*20 {
				t.Errorf("four rounds cost %d", spent)
			}
			if _, _, err := g.run(t.Context(), 1_000_000, "f", 1<<31); err == nil || g.left() >= 0 {
				t.Errorf("two billion rounds: error %v with %d left", err, g.left())
			}
		})
	}
}
