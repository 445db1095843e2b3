// Package wasmtest assembles WebAssembly modules in Go code, for tests: small
// guests that do one thing, and hostile ones, are built where they are used and
// not committed as binaries.
//
// A [Module] is a literal whose fields are the sections of the binary format.
// [Module.Bytes] writes it; [Module.Sections] gives the sections one by one, so
// that a test can reorder, repeat or damage them before [Assemble] joins them.
//
// Invariants:
//
//  1. Nothing is checked: what a test writes down is what comes out, valid or
//     not.
//  2. The same module assembles to the same bytes.
//
// The package never runs or compiles a module, and no production code imports
// it.
package wasmtest

import (
	"encoding/binary"
	"slices"
)

// ValType is the encoding of a value type.
type ValType byte

// Value types of the core specification, version 2.
const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	V128      ValType = 0x7b
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f
)

// Kind says what an import or export is.
type Kind byte

// Kinds of imports and exports.
const (
	KindFunc   Kind = 0
	KindTable  Kind = 1
	KindMemory Kind = 2
	KindGlobal Kind = 3
)

// Module is a module in the order of its sections. The zero value is the empty
// module.
type Module struct {
	Types    []Type
	Imports  []Import
	Funcs    []Func // declares and defines: both the function and the code section
	Tables   []Table
	Memories []Limits
	Globals  []Global
	Exports  []Export
	Start    *uint32
	Elems    []Elem
	Datas    []Data
	Customs  []Custom // after all other sections

	// DataCount adds the data count section, which memory.init and data.drop
	// need.
	DataCount bool
}

// Type is a function type.
type Type struct {
	Params, Results []ValType
}

// Import is an import of any kind.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         uint32  // KindFunc: index of its type
	Table        Table   // KindTable
	Memory       Limits  // KindMemory
	Global       ValType // KindGlobal
	Mutable      bool    // KindGlobal
}

// Func is a function with its code. Code includes the final [End].
type Func struct {
	Type   uint32
	Locals []Locals
	Code   Code
}

// Locals declares N locals of one type.
type Locals struct {
	N    uint32
	Type ValType
}

// Limits bounds a memory, in pages, or a table, in elements.
type Limits struct {
	Min uint32
	Max *uint32 // nil: none
}

// Table is a table of references.
type Table struct {
	Type   ValType
	Limits Limits
}

// Global is a global variable. Init includes the final [End].
type Global struct {
	Type    ValType
	Mutable bool
	Init    Code
}

// Export names something of the module.
type Export struct {
	Name  string
	Kind  Kind
	Index uint32
}

// Elem is an element segment of function indices: active in table 0 at Offset
// (which includes the final [End]), or passive if Offset is nil.
type Elem struct {
	Offset Code
	Funcs  []uint32
}

// Data is a data segment: active in memory 0 at Offset (which includes the final
// [End]), or passive if Offset is nil.
type Data struct {
	Offset Code
	Bytes  []byte
}

// Custom is a custom section.
type Custom struct {
	Name  string
	Bytes []byte
}

// Index returns a pointer to i, for [Module.Start] and [Limits].
func Index(i uint32) *uint32 { return &i }

// Bytes returns the module in the binary format.
func (m *Module) Bytes() []byte { return Assemble(m.Sections()...) }

// Sections returns the sections that the module needs, in the right order.
func (m *Module) Sections() []Section {
	var s []Section
	add := func(id byte, n int, body []byte) {
		if n > 0 {
			s = append(s, Section{ID: id, Body: slices.Concat(Uint(uint64(n)), body)})
		}
	}
	add(IDType, len(m.Types), join(m.Types, Type.bytes))
	add(IDImport, len(m.Imports), join(m.Imports, Import.bytes))
	add(IDFunction, len(m.Funcs), join(m.Funcs, func(f Func) []byte { return Uint(uint64(f.Type)) }))
	add(IDTable, len(m.Tables), join(m.Tables, Table.bytes))
	add(IDMemory, len(m.Memories), join(m.Memories, Limits.bytes))
	add(IDGlobal, len(m.Globals), join(m.Globals, Global.bytes))
	add(IDExport, len(m.Exports), join(m.Exports, Export.bytes))
	if m.Start != nil {
		s = append(s, Section{ID: IDStart, Body: Uint(uint64(*m.Start))})
	}
	add(IDElement, len(m.Elems), join(m.Elems, Elem.bytes))
	if m.DataCount {
		s = append(s, Section{ID: IDDataCount, Body: Uint(uint64(len(m.Datas)))})
	}
	add(IDCode, len(m.Funcs), join(m.Funcs, func(f Func) []byte { return sized(f.Body()) }))
	add(IDData, len(m.Datas), join(m.Datas, Data.bytes))
	for _, c := range m.Customs {
		s = append(s, Section{ID: IDCustom, Body: slices.Concat(sized([]byte(c.Name)), c.Bytes)})
	}
	return s
}

func (t Type) bytes() []byte {
	return slices.Concat([]byte{0x60}, types(t.Params), types(t.Results))
}

func (i Import) bytes() []byte {
	b := slices.Concat(sized([]byte(i.Module)), sized([]byte(i.Name)), []byte{byte(i.Kind)})
	switch i.Kind {
	case KindFunc:
		return append(b, Uint(uint64(i.Type))...)
	case KindTable:
		return append(b, i.Table.bytes()...)
	case KindMemory:
		return append(b, i.Memory.bytes()...)
	}
	return append(b, byte(i.Global), flag(i.Mutable))
}

// Body returns the function's entry of the code section without its size.
func (f Func) Body() []byte {
	b := Uint(uint64(len(f.Locals)))
	for _, l := range f.Locals {
		b = append(append(b, Uint(uint64(l.N))...), byte(l.Type))
	}
	return append(b, f.Code...)
}

func (l Limits) bytes() []byte {
	if l.Max == nil {
		return append([]byte{0}, Uint(uint64(l.Min))...)
	}
	return slices.Concat([]byte{1}, Uint(uint64(l.Min)), Uint(uint64(*l.Max)))
}

func (t Table) bytes() []byte { return append([]byte{byte(t.Type)}, t.Limits.bytes()...) }

func (g Global) bytes() []byte {
	return append([]byte{byte(g.Type), flag(g.Mutable)}, g.Init...)
}

func (e Export) bytes() []byte {
	return slices.Concat(sized([]byte(e.Name)), []byte{byte(e.Kind)}, Uint(uint64(e.Index)))
}

func (e Elem) bytes() []byte {
	b := []byte{1, 0}
	if e.Offset != nil {
		b = append([]byte{0}, e.Offset...)
	}
	b = append(b, Uint(uint64(len(e.Funcs)))...)
	for _, f := range e.Funcs {
		b = append(b, Uint(uint64(f))...)
	}
	return b
}

func (d Data) bytes() []byte {
	if d.Offset == nil {
		return append([]byte{1}, sized(d.Bytes)...)
	}
	return slices.Concat([]byte{0}, d.Offset, sized(d.Bytes))
}

func types(ts []ValType) []byte {
	b := Uint(uint64(len(ts)))
	for _, t := range ts {
		b = append(b, byte(t))
	}
	return b
}

func join[T any](items []T, bytes func(T) []byte) []byte {
	var b []byte
	for _, item := range items {
		b = append(b, bytes(item)...)
	}
	return b
}

func sized(b []byte) []byte { return append(Uint(uint64(len(b))), b...) }

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

// Uint returns v as unsigned LEB128.
func Uint(v uint64) []byte { return binary.AppendUvarint(nil, v) }

// Int returns v as signed LEB128.
func Int(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Section ids of the binary format.
const (
	IDCustom    byte = 0
	IDType      byte = 1
	IDImport    byte = 2
	IDFunction  byte = 3
	IDTable     byte = 4
	IDMemory    byte = 5
	IDGlobal    byte = 6
	IDExport    byte = 7
	IDStart     byte = 8
	IDElement   byte = 9
	IDCode      byte = 10
	IDData      byte = 11
	IDDataCount byte = 12
	IDTag       byte = 13
)

// Section is one section: its id and its content.
type Section struct {
	ID   byte
	Body []byte

	// Size is written instead of the content's length where it is not nil: any
	// bytes, a lie or a malformed number.
	Size []byte
}

// Assemble returns a module of these sections, in this order, whatever they are.
func Assemble(sections ...Section) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		size := s.Size
		if size == nil {
			size = Uint(uint64(len(s.Body)))
		}
		b = slices.Concat(b, []byte{s.ID}, size, s.Body)
	}
	return b
}
