package meter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Section ids of the binary format.
const (
	idCustom    = 0
	idType      = 1
	idImport    = 2
	idFunction  = 3
	idTable     = 4
	idMemory    = 5
	idGlobal    = 6
	idExport    = 7
	idStart     = 8
	idElement   = 9
	idCode      = 10
	idData      = 11
	idDataCount = 12
	idTag       = 13
)

// order is the order in which known sections must stand.
var order = [...]byte{
	idType, idImport, idFunction, idTable, idMemory, idGlobal, idExport, idStart,
	idElement, idDataCount, idCode, idData,
}

var sectionNames = [...]string{
	idCustom: "custom", idType: "type", idImport: "import", idFunction: "function",
	idTable: "table", idMemory: "memory", idGlobal: "global", idExport: "export",
	idStart: "start", idElement: "element", idCode: "code", idData: "data",
	idDataCount: "data count",
}

// Limits on what no real guest needs more of, so that neither this package nor
// the engine allocates without measure for a hostile module.
const (
	maxTypes   = 1 << 14
	maxParams  = 256 // of one function type
	maxResults = 4   // of one function type: a call of two bytes pushes them all
	maxImports = 1 << 12
	maxTables  = 16
	maxGlobals = 1 << 14
	maxExports = 1 << 14
	maxVector  = 1 << 20 // segments, elements of a segment, names
)

// module is what the rewriter has to know of a module.
type module struct {
	opt      Options
	sections [idTag]*reader // content of each known section; nil where there is none
	names    []byte         // name section to write

	params   []int    // number of parameters of each type
	funcs    []uint32 // type of each defined function
	imported int      // imported functions
	globals  int      // imported and defined
	elements int      // sum of the minimal sizes of the tables
	tables   []byte   // table section with capped limits
	code     []byte   // metered code section
}

func parse(wasm []byte, opt Options) (*module, error) {
	if len(wasm) > opt.MaxModule {
		return nil, fmt.Errorf("module of %d bytes: the limit is %d", len(wasm), opt.MaxModule)
	}
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return nil, errors.New("not a WebAssembly module")
	}
	if string(wasm[4:8]) != "\x01\x00\x00\x00" {
		return nil, fmt.Errorf("module version %x: %w", wasm[4:8], unsupported("a core module of version 1"))
	}
	m := &module{opt: opt}
	r := reader{b: wasm, pos: 8}
	next := 0 // position in order from which the next section may be
	for r.more() {
		at := r.pos
		id := r.byte()
		part := r.part(int(r.u32()))
		if r.err != nil {
			break
		}
		if id == idTag {
			r.failAt(at, "tag section %w", unsupported("exception handling"))
			break
		}
		if int(id) >= len(sectionNames) {
			r.failAt(at, "unknown section %d", id)
			break
		}
		if id != idCustom {
			if m.sections[id] != nil {
				r.failAt(at, "second %s section", sectionNames[id])
				break
			}
			for next < len(order) && order[next] != id {
				next++
			}
			if next == len(order) {
				r.failAt(at, "%s section out of order", sectionNames[id])
				break
			}
			start := part
			m.sections[id] = &start
		}
		if err := m.section(id, &part); err != nil {
			return nil, fmt.Errorf("%s section: %w", sectionNames[id], err)
		}
	}
	if r.err == nil && m.sections[idCode] == nil && len(m.funcs) > 0 {
		r.fail("%d functions without code", len(m.funcs))
	}
	return m, r.err
}

// section reads one section to its end. All that it refers to, but for function
// indices, has been read before, thanks to the order of sections.
func (m *module) section(id byte, r *reader) error {
	switch id {
	case idCustom:
		m.custom(r)
	case idType:
		m.typeSection(r)
	case idImport:
		m.imports(r)
	case idFunction:
		m.functions(r)
	case idTable:
		m.tableSection(r)
	case idMemory:
		for range r.count("memories", 1, 2) {
			r.memory()
		}
	case idGlobal:
		m.globalSection(r)
	case idExport:
		m.exports(r)
	case idStart, idDataCount:
		r.u32()
	case idElement:
		m.elementSection(r)
	case idCode:
		return m.codeSection(r)
	case idData:
		m.data(r)
	}
	return r.finish()
}

func (m *module) typeSection(r *reader) {
	n := r.count("types", maxTypes, 3)
	m.params = make([]int, 0, n)
	for range n {
		switch form := r.byte(); form {
		case 0x60:
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.failAt(r.pos-1, "type form %#02x %w", form, unsupported("garbage collection"))
		default:
			r.failAt(r.pos-1, "unknown type form %#02x", form)
		}
		params := r.count("parameters", maxParams, 1)
		for range params {
			r.valueType()
		}
		for range r.count("results", maxResults, 1) {
			r.valueType()
		}
		m.params = append(m.params, params)
	}
}

func (m *module) imports(r *reader) {
	for range r.count("imports", maxImports, 4) {
		r.name()
		r.name()
		switch kind := r.byte(); kind {
		case 0:
			r.u32()
			m.imported++
		case 1:
			r.refType()
			r.limits("table")
		case 2:
			r.memory()
		case 3:
			r.globalType()
			m.globals++
		case 4:
			r.failAt(r.pos-1, "imported tag %w", unsupported("exception handling"))
		default:
			r.failAt(r.pos-1, "unknown import kind %d", kind)
		}
	}
}

func (m *module) functions(r *reader) {
	n := r.count("functions", m.opt.MaxFunctions, 1)
	m.funcs = make([]uint32, 0, n)
	for range n {
		at, t := r.pos, r.u32()
		if int64(t) >= int64(len(m.params)) {
			r.failAt(at, "type %d of %d", t, len(m.params))
			return
		}
		m.funcs = append(m.funcs, t)
	}
}

func (m *module) globalSection(r *reader) {
	for range r.count("globals", maxGlobals, 4) {
		r.globalType()
		m.constant(r)
		m.globals++
	}
}

func (m *module) exports(r *reader) {
	for range r.count("exports", maxExports, 3) {
		at := r.pos
		if r.name() == FuelExport {
			r.failAt(at, "export %q is reserved", FuelExport)
		}
		switch kind := r.byte(); kind {
		case 0, 1, 2:
			r.u32()
		case 3:
			m.globalIndex(r)
		case 4:
			r.failAt(r.pos-1, "exported tag %w", unsupported("exception handling"))
		default:
			r.failAt(r.pos-1, "unknown export kind %d", kind)
		}
	}
}

// globalIndex reads the index of a global of the module itself. The fuel global
// comes after all of them, so this check is what keeps it out of reach.
func (m *module) globalIndex(r *reader) {
	at := r.pos
	if i := r.u32(); int64(i) >= int64(m.globals) {
		r.failAt(at, "global %d of %d", i, m.globals)
	}
}

// constant reads a constant expression.
func (m *module) constant(r *reader) {
	for r.err == nil {
		at := r.pos
		switch op := r.byte(); op {
		case opEnd:
			return
		case 0x41:
			r.signed(32)
		case 0x42:
			r.signed(64)
		case 0x43:
			r.skip(4)
		case 0x44:
			r.skip(8)
		case 0x23:
			m.globalIndex(r)
		case 0xd0:
			r.refType()
		case 0xd2:
			r.u32()
		case opVector:
			if r.byte() != 0x0c {
				r.failAt(at, "vector instruction in a constant expression")
			}
			r.skip(16)
		case 0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e:
			r.failAt(at, "opcode %#02x %w", op, unsupported("extended constant expressions"))
		default:
			r.failAt(at, "opcode %#02x in a constant expression", op)
		}
	}
}

// Subsections of the name section.
const (
	namesModule    = 0
	namesFunctions = 1
	namesLocals    = 2
)

// custom reads a custom section. It keeps only the names of the module and its functions,
// for the stack traces of traps. Other sections describe code at offsets that no longer
// hold, or the host reads them from the original.
func (m *module) custom(r *reader) {
	if r.name() != "name" {
		r.pos = len(r.b)
		return
	}
	if m.names != nil {
		r.fail("second name section")
		return
	}
	m.names = append([]byte{4}, "name"...)
	for r.more() {
		id := r.byte()
		part := r.part(int(r.u32()))
		if r.err != nil {
			return
		}
		content := part.b[part.pos:]
		switch id {
		case namesModule:
			part.name()
		case namesFunctions:
			part.nameMap()
		case namesLocals:
			for range part.count("functions with names", maxVector, 2) {
				part.u32()
				part.nameMap()
				if part.err != nil {
					break
				}
			}
		default:
			continue
		}
		if r.err = part.finish(); r.err != nil {
			return
		}
		if id != namesLocals {
			m.names = append(m.names, id)
			m.names = binary.AppendUvarint(m.names, uint64(len(content)))
			m.names = append(m.names, content...)
		}
	}
}

func (r *reader) nameMap() {
	for range r.count("names", maxVector, 2) {
		r.u32()
		r.name()
		if r.err != nil {
			return
		}
	}
}
