package meter

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	w "talon/host/plugin/wasmtest"
)

func repeat(n int, c w.Code) w.Code { return bytes.Repeat(c, n) }

func code(c ...w.Code) *w.Module { return function(none0, nil, c...) }

func with(m *w.Module, change func(*w.Module)) *w.Module {
	change(m)
	return m
}

// sections changes the list of sections of a small valid module.
func sections(change func([]w.Section) []w.Section) []byte {
	m := function(i32Type, nil, w.LocalGet(0))
	m.Globals = []w.Global{{Type: w.I32, Init: w.Body(w.I32Const(0), w.End)}}
	return w.Assemble(change(m.Sections())...)
}

// resize replaces the encoded size of one section.
func resize(id byte, size ...byte) []byte {
	return sections(func(s []w.Section) []w.Section {
		i := slices.IndexFunc(s, func(s w.Section) bool { return s.ID == id })
		s[i].Size = size
		return s
	})
}

// body is a module whose one function body is these bytes.
func body(b ...byte) []byte {
	return w.Assemble(
		w.Section{ID: w.IDType, Body: []byte{1, 0x60, 0, 0}},
		w.Section{ID: w.IDFunction, Body: []byte{1, 0}},
		w.Section{ID: w.IDCode, Body: slices.Concat([]byte{1}, w.Uint(uint64(len(b))), b)},
	)
}

var rejected = map[string]struct {
	wasm []byte
	want string
}{
	// The fuel global and the scratch local would be in reach after rewriting.
	"reads the fuel":              {code(w.GlobalGet(0), w.Drop).Bytes(), "function 0: byte 0x24: global 0 of 0"},
	"writes the fuel":             {code(w.I64Const(1), w.GlobalSet(0)).Bytes(), "global 0 of 0"},
	"exports the fuel":            {with(code(), func(m *w.Module) { m.Exports[0].Kind = w.KindGlobal }).Bytes(), "global 0 of 0"},
	"global from the fuel":        {with(code(), func(m *w.Module) { m.Globals = []w.Global{{Type: w.I64, Init: w.Body(w.GlobalGet(1), w.End)}} }).Bytes(), "global 1 of 0"},
	"global from itself":          {with(code(), func(m *w.Module) { m.Globals = []w.Global{{Type: w.I64, Init: w.Body(w.GlobalGet(0), w.End)}} }).Bytes(), "global 0 of 0"},
	"data offset from the fuel":   {with(code(), func(m *w.Module) { m.Datas = []w.Data{{Offset: w.Body(w.GlobalGet(0), w.End)}} }).Bytes(), "global 0 of 0"},
	"elem offset from the fuel":   {with(code(), func(m *w.Module) { m.Elems = []w.Elem{{Offset: w.Body(w.GlobalGet(0), w.End)}} }).Bytes(), "global 0 of 0"},
	"elem expression of the fuel": {w.Assemble(w.Section{ID: w.IDElement, Body: []byte{1, 5, 0x70, 1, 0x23, 0, 0x0b}}), "global 0 of 0"},
	"takes the export's name":     {with(code(), func(m *w.Module) { m.Exports[0].Name = FuelExport }).Bytes(), "reserved"},
	"reads the scratch local":     {code(w.I32Const(0), w.MemoryGrow, w.Drop, w.LocalGet(0), w.Drop).Bytes(), "local 0 of 0"},
	"writes the scratch local":    {function(i32Type, nil, w.I32Const(0), w.LocalTee(1)).Bytes(), "local 1 of 1"},

	"empty":                 {nil, "not a WebAssembly module"},
	"not wasm":              {[]byte("#!/bin/sh\necho hello"), "not a WebAssembly module"},
	"cut in the header":     {[]byte("\x00asm\x01\x00"), "not a WebAssembly module"},
	"component":             {[]byte("\x00asm\x0d\x00\x01\x00"), "module version 0d000100"},
	"size too large":        {resize(w.IDType, 0x7f), "unexpected end"},
	"size too small":        {resize(w.IDType, 5), "type section: byte 0xe: 1 results do not fit"},
	"size of six bytes":     {resize(w.IDType, 0x86, 0x80, 0x80, 0x80, 0x80, 0), "malformed 32-bit number"},
	"size of 33 bits":       {resize(w.IDType, 0x86, 0x80, 0x80, 0x80, 0x10), "malformed 32-bit number"},
	"second section":        {sections(func(s []w.Section) []w.Section { return slices.Insert(s, 1, s[0]) }), "second type section"},
	"sections out of order": {sections(func(s []w.Section) []w.Section { s[0], s[1] = s[1], s[0]; return s }), "function section: byte 0xc: type 0 of 0"},
	"code before exports": {sections(func(s []w.Section) []w.Section {
		n := len(s)
		s[n-1], s[n-2] = s[n-2], s[n-1]
		return s
	}), "export section out of order"},
	"bytes left in a section": {sections(func(s []w.Section) []w.Section { s[0].Body = append(s[0].Body, 0); return s }), "1 bytes left over"},
	"bytes after the module":  {append(code().Bytes(), 11), "unexpected end"},
	"unknown section":         {w.Assemble(w.Section{ID: 14}), "unknown section 14"},
	"functions without code": {sections(func(s []w.Section) []w.Section {
		return slices.DeleteFunc(s, func(s w.Section) bool { return s.ID == w.IDCode })
	}), "1 functions without code"},
	"more bodies than functions": {sections(func(s []w.Section) []w.Section {
		c := &s[len(s)-1]
		c.Body = slices.Concat([]byte{2}, c.Body[1:], c.Body[1:])
		return s
	}), "2 bodies for 1 functions"},
	"unknown type of a function":  {with(code(), func(m *w.Module) { m.Funcs[0].Type = 1 }).Bytes(), "type 1 of 1"},
	"a billion imports":           {w.Assemble(w.Section{ID: w.IDImport, Body: w.Uint(1 << 30)}), "the limit is"},
	"more types than bytes":       {w.Assemble(w.Section{ID: w.IDType, Body: w.Uint(1000)}), "do not fit"},
	"name that is not UTF-8":      {with(code(), func(m *w.Module) { m.Exports[0].Name = "\xff" }).Bytes(), "not UTF-8"},
	"malformed names":             {with(code(), func(m *w.Module) { m.Customs = []w.Custom{{Name: "name", Bytes: []byte{1, 1, 9}}} }).Bytes(), "do not fit"},
	"second name section":         {with(code(), func(m *w.Module) { m.Customs = []w.Custom{{Name: "name"}, {Name: "name"}} }).Bytes(), "second name section"},
	"custom section without name": {w.Assemble(w.Section{ID: w.IDCustom}), "custom section"},

	"no end":                    {body(0, 0x01), "unexpected end"},
	"body of no bytes":          {body(), "do not fit"},
	"block without end":         {body(0, 0x02, 0x40, 0x0b), "unexpected end"},
	"too many ends":             {body(0, 0x0b, 0x0b), "code after the end"},
	"code after the end":        {body(0, 0x0b, 0x01), "code after the end"},
	"else without if":           {body(0, 0x02, 0x40, 0x05, 0x0b, 0x0b), "else without if"},
	"two elses":                 {body(0, 0x41, 0, 0x04, 0x40, 0x05, 0x05, 0x0b, 0x0b), "else without if"},
	"body longer than section":  {w.Assemble(w.Section{ID: w.IDType, Body: []byte{1, 0x60, 0, 0}}, w.Section{ID: w.IDFunction, Body: []byte{1, 0}}, w.Section{ID: w.IDCode, Body: []byte{1, 100, 0, 0x0b}}), "unexpected end"},
	"locals over 2^32":          {body(2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x7f, 0x0b), "locals: the limit is"},
	"locals over the limit":     {body(1, 0xff, 0xff, 0x03, 0x7f, 0x0b), "65535 locals: the limit is 10000"},
	"many groups of locals":     {body(0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b), "groups of locals"},
	"huge br_table":             {body(0, 0x41, 0, 0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b), "branch targets"},
	"br_table beyond the body":  {body(0, 0x41, 0, 0x0e, 0x20, 0, 0x0b), "do not fit"},
	"branch out of the body":    {body(0, 0x0c, 1, 0x0b), "label 1 of 1"},
	"branch far out":            {body(0, 0x0c, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x0b), "label 4294967295 of 1"},
	"br_table out of the body":  {body(0, 0x41, 0, 0x0e, 1, 0, 1, 0x0b), "label 1 of 1"},
	"overlong index":            {body(0, 0x0c, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x0b), "malformed 32-bit number"},
	"i32.const of six bytes":    {body(0, 0x41, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x1a, 0x0b), "malformed 32-bit number"},
	"i32.const of 33 bits":      {body(0, 0x41, 0x80, 0x80, 0x80, 0x80, 0x10, 0x1a, 0x0b), "malformed 32-bit number"},
	"i32.const, wrong sign":     {body(0, 0x41, 0x80, 0x80, 0x80, 0x80, 0x40, 0x1a, 0x0b), "malformed 32-bit number"},
	"i64.const of eleven bytes": {body(0, 0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0x1a, 0x0b), "malformed 64-bit number"},
	"i64.const of 65 bits":      {body(0, 0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0x1a, 0x0b), "malformed 64-bit number"},
	"block type, negative":      {body(0, 0x02, 0xc0, 0x7f, 0x0b, 0x0b), "malformed block type"},
	"unknown block type":        {body(0, 0x02, 0x41, 0x0b, 0x0b), "unknown type 0x41"},
	"unknown opcode":            {body(0, 0x01, 0x27, 0x0b), "function 0: byte 0x18: unknown opcode 0x27"},
	"unknown opcode after 0xfc": {body(0, 0xfc, 0x12, 0x0b), "unknown opcode 0xfc 0x12"},
	"overlong after 0xfc":       {body(0, 0xfc, 0x8b, 0x00, 0x00, 0x0b), "unknown opcode 0xfc 0x8b"},
	"unknown opcode after 0xfd": {body(0, 0xfd, 0x9a, 0x01, 0x0b), "unknown opcode 0xfd 0x9a"},
	// The engine reads 0xfd 0x80 as a whole instruction and what follows as the
	// next one, here a loop.
	"loop hidden in a vector opcode": {body(0, 0xfd, 0x80, 0x03, 0x40, 0x0c, 0, 0x0b, 0x0b), "malformed vector opcode"},
	"overlong vector opcode":         {body(0, 0xfd, 0x8c, 0x00, 0x0b), "malformed vector opcode"},

	"nested 100,000 deep":       {code(repeat(100_000, w.Block(w.Void)), repeat(100_000, w.End)).Bytes(), "function 0: byte"},
	"too many blocks":           {code(repeat(maxBlocks+1, w.Body(w.Block(w.Void), w.End))).Bytes(), "too complex"},
	"too many loops":            {code(repeat(maxMerges/minLocals/loopMerges+1, w.Body(w.Loop(w.Void), w.End))).Bytes(), "too complex"},
	"too many blocks by locals": {function(none0, i32s(10_000), repeat(210, w.Body(w.Block(w.Void), w.End))).Bytes(), "too complex"},
	"too many bulk operations":  {code(repeat(3000, w.Body(w.I32Const(0), w.MemoryGrow, w.Drop))).Bytes(), "too complex"},
	"too many branch targets":   {code(w.I32Const(0), w.BrTable(make([]uint32, maxTargets+2)...)).Bytes(), "branch targets: the limit is"},
	"deep blocks in many functions": {with(code(), func(m *w.Module) {
		deep := w.Body(repeat(7900, w.Block(w.Void)), repeat(7900, w.End), w.End)
		for range maxWork / (7900 * 7900) {
			m.Funcs = append(m.Funcs, w.Func{Code: deep})
		}
		m.Funcs = append(m.Funcs, w.Func{Code: deep})
	}).Bytes(), "module too complex"},
	"branch targets in many functions": {with(code(), func(m *w.Module) {
		for range maxAllTargets/30_000 + 1 {
			m.Funcs = append(m.Funcs, w.Func{Code: w.Body(w.I32Const(0), w.BrTable(make([]uint32, 30_000)...), w.End)})
		}
	}).Bytes(), "module too complex"},
	"large body":  {code(repeat(600_000, w.Nop)).Bytes(), "the limit is 262144"},
	"large table": {with(code(), func(m *w.Module) { m.Tables = []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 1 << 27}}} }).Bytes(), "134217728 table elements: the limit is"},
	"large tables": {with(code(), func(m *w.Module) {
		m.Tables = slices.Repeat([]w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 60_000}}}, 2)
	}).Bytes(), "120000 table elements: the limit is"},
	"many results": {with(code(), func(m *w.Module) { m.Types = append(m.Types, w.Type{Results: make([]w.ValType, 1000)}) }).Bytes(), "1000 results: the limit is"},
}

func TestReject(t *testing.T) {
	for name, tt := range rejected {
		t.Run(name, func(t *testing.T) {
			out, err := Rewrite(tt.wasm, Options{})
			if err == nil {
				t.Fatalf("accepted; wazero says: %v", compiles(t, newRuntime(t, wazero.NewRuntimeConfigInterpreter()), out))
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q in it", err, tt.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	m := with(function(none0, i32s(3), w.Block(w.Void), w.Block(w.Void), w.End, w.End), func(m *w.Module) {
		m.Funcs = slices.Repeat(m.Funcs, 3)
		m.Tables = []w.Table{{Type: w.FuncRef, Limits: w.Limits{Min: 4}}}
	}).Bytes()
	tight := Options{MaxModule: len(m), MaxFunctions: 3, MaxBody: 10, MaxLocals: 3, MaxDepth: 2, MaxTable: 4}
	if _, err := Rewrite(m, tight); err != nil {
		t.Fatalf("within all limits: %v", err)
	}
	for name, lower := range map[string]func(*Options){
		"module of":     func(o *Options) { o.MaxModule-- },
		"functions":     func(o *Options) { o.MaxFunctions-- },
		"body of":       func(o *Options) { o.MaxBody-- },
		"locals":        func(o *Options) { o.MaxLocals-- },
		"nested deeper": func(o *Options) { o.MaxDepth-- },
		"table":         func(o *Options) { o.MaxTable-- },
	} {
		opt := tight
		lower(&opt)
		if _, err := Rewrite(m, opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("over the limit by one: error %v, want %q in it", err, name)
		}
	}
}

// TestUnsupported names the feature of whatever the engine does not run.
func TestUnsupported(t *testing.T) {
	for want, modules := range map[string][][]byte{
		"tail calls":                    {body(0, 0x12, 0, 0x0b), body(0, 0x13, 0, 0, 0x0b), body(0, 0x15, 0, 0x0b)},
		"exception handling":            {body(0, 0x08, 0, 0x0b), body(0, 0x1f, 0x40, 0, 0x0b, 0x0b), body(0, 0x06, 0x40, 0x0b, 0x0b), body(0, 0x0a, 0x0b), body(1, 1, 0x69, 0x0b), w.Assemble(w.Section{ID: w.IDTag, Body: []byte{0}})},
		"threads":                       {body(0, 0xfe, 0x03, 0, 0x0b), w.Assemble(w.Section{ID: w.IDMemory, Body: []byte{1, 3, 1, 1}})},
		"typed function references":     {body(0, 0x14, 0, 0x0b), body(0, 0xd4, 0x0b), body(0, 0x02, 0x63, 0x70, 0x0b, 0x0b), body(1, 1, 0x64, 0, 0x0b), w.Assemble(w.Section{ID: w.IDTable, Body: []byte{1, 0x40, 0, 0x70, 0, 0, 0xd0, 0x70, 0x0b}})},
		"garbage collection":            {body(0, 0xfb, 0, 0x0b), w.Assemble(w.Section{ID: w.IDType, Body: []byte{1, 0x4e, 1, 0x60, 0, 0}})},
		"relaxed SIMD":                  {body(0, 0xfd, 0x80, 0x02, 0x0b)},
		"extended constant expressions": {w.Assemble(w.Section{ID: w.IDGlobal, Body: []byte{1, 0x7f, 0, 0x41, 1, 0x41, 1, 0x6a, 0x0b}})},
		"64-bit memories":               {w.Assemble(w.Section{ID: w.IDMemory, Body: []byte{1, 4, 1}})},
		"multiple memories":             {body(0, 0x41, 0, 0x28, 0x42, 1, 0, 0x1a, 0x0b), body(0, 0x3f, 1, 0x1a, 0x0b), w.Assemble(w.Section{ID: w.IDData, Body: []byte{1, 2, 1, 0x41, 0, 0x0b, 0}})},
	} {
		for _, wasm := range modules {
			_, err := Rewrite(wasm, Options{})
			if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "needs "+want) {
				t.Errorf("%x: error %v, want one that names %s", wasm[8:], err, want)
			}
		}
	}
}

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
