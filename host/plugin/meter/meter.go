package meter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// FuelExport is the name under which a metered module exports its fuel: a mutable i64
// global. The remaining fuel is not negative. A negative value after a trap means that the
// guest ran out.
const FuelExport = "talon.fuel"

// Options bounds a module. A limit of zero means its default.
type Options struct {
	// StartFuel is what the global holds when the module is instantiated: what
	// the start function, and any other that runs before the host sets the
	// global, may spend together.
	StartFuel int64

	MaxModule    int // bytes; default 32 MiB
	MaxFunctions int // defined functions; default 100,000
	MaxBody      int // bytes of one function; default 256 KiB
	MaxLocals    int // locals of one function, parameters included; default 10,000
	MaxDepth     int // blocks open at one time in a function; default 8,000
	MaxTable     int // elements of one table, and of all when they are created; default 100,000

	maxLoop int // bytes of a loop that is copied; default maxLoop
}

func (o *Options) setDefaults() {
	set := func(limit *int, n int) {
		if *limit <= 0 {
			*limit = n
		}
	}
	set(&o.MaxModule, 32<<20)
	set(&o.MaxFunctions, 100_000)
	set(&o.MaxBody, 256<<10)
	set(&o.MaxLocals, 10_000)
	set(&o.MaxDepth, 8_000)
	set(&o.MaxTable, 100_000)
	set(&o.maxLoop, maxLoop)
}

// Rewrite returns the module with fuel metering added. The module that it is
// given is not changed. An error says what is wrong and at which byte;
// [errors.ErrUnsupported] is its cause if the module needs a feature that the
// engine does not run.
//
// Rewrite does not validate everything: what it returns has to be compiled, and
// is valid exactly if the module was.
func Rewrite(wasm []byte, opt Options) ([]byte, error) {
	if opt.StartFuel < 0 {
		return nil, errors.New("meter module: negative start fuel")
	}
	opt.setDefaults()
	m, err := parse(wasm, opt)
	if err != nil {
		return nil, fmt.Errorf("meter module: %w", err)
	}
	return m.write(len(wasm)), nil
}

// write assembles the metered module.
func (m *module) write(size int) []byte {
	fuel := binary.AppendUvarint(nil, uint64(m.globals))
	out := append(make([]byte, 0, size+len(m.code)/4+1024), "\x00asm\x01\x00\x00\x00"...)
	for _, id := range order {
		switch part := m.sections[id]; {
		case id == idGlobal:
			global := append([]byte{typeI64, 1, 0x42}, appendSigned(nil, m.opt.StartFuel)...)
			out = extend(out, id, part, append(global, opEnd))
		case id == idExport:
			export := append([]byte{byte(len(FuelExport))}, FuelExport...)
			out = extend(out, id, part, append(append(export, 3), fuel...))
		case part == nil:
		case id == idTable:
			out = appendSection(out, id, m.tables)
		case id == idCode:
			out = appendSection(out, id, m.code)
		default:
			out = appendSection(out, id, part.b[part.pos:])
		}
	}
	if m.names != nil {
		out = appendSection(out, idCustom, m.names)
	}
	return out
}

// extend appends the section, a vector, with one more item at its end.
func extend(out []byte, id byte, part *reader, item []byte) []byte {
	n, rest := uint32(0), []byte(nil)
	if part != nil {
		r := *part
		n, rest = r.u32(), r.b[r.pos:]
	}
	count := binary.AppendUvarint(nil, uint64(n)+1)
	out = append(out, id)
	out = binary.AppendUvarint(out, uint64(len(count)+len(rest)+len(item)))
	out = append(out, count...)
	out = append(out, rest...)
	return append(out, item...)
}

func appendSection(out []byte, id byte, body []byte) []byte {
	out = append(out, id)
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}

// A body is metered in two passes. The first finds the points where code is
// inserted or replaced, and what each costs; the second copies the body with
// these changes, and small inner loops once more (loop.go). Neither recurses: open blocks are a stack of frames.

// Limits on one function. The engine's time to compile it grows with the square of these
// counts, or faster. Without limits, a module of 32 kB can keep the engine busy for
// minutes, and the engine cannot be interrupted within a function.
const (
	maxTargets = 1 << 15 // labels of all br_table
	maxBlocks  = 1 << 13 // block, loop, if, charges

	// maxMerges bounds locals (at least minLocals) times blocks, since each
	// local may have to be merged where a block ends. A loop counts as
	// loopMerges blocks.
	maxMerges  = 1 << 21
	minLocals  = 64
	loopMerges = 16

	bulkBlocks = 4 // a bulk instruction counts as this many blocks
)

// Limits on all functions together, since a module has room for many that are as
// bad as one may be. The largest Go module that was tried, of 12 MB, needs
// 36,000,000 of the first and 230,000 of the second.
const (
	maxWork       = 1 << 28 // squares of blocks, times locals (at least minLocals) / minLocals
	maxAllTargets = 1 << 19
)

// A call is charged for the stack that it takes, and not just for its time: the
// engine clears and keeps a place for each local, and copies the stack to make it
// grow. A recursion would fill memory long before it has spent its fuel on
// instructions.
const (
	callCost      = 16
	localsPerFuel = 4
)

// point is a place in a body that changes.
type point struct {
	pos  int // offset in the module
	kind pointKind

	// cost is what a head or a jump charges. It is also the running sum of the
	// region that the head pays for.
	cost int64

	owner int    // jump and thread: the head of the dispatch loop that they rely on
	next  int    // thread: offset of the instruction after the replaced one; jump: of that after its label
	depth uint32 // thread: label of the new branch
}

type pointKind uint8

const (
	head     pointKind = iota // start of a function or loop: charge cost
	idle                      // head of a dispatch loop, which its jumps pay for
	jump                      // branch backward to a label: charge cost
	thread                    // branch forward to a label: branch there directly
	byBytes                   // memory.copy, memory.fill, memory.init: charge the operand
	byPages                   // memory.grow
	byLength                  // table instructions: one unit an element
)

// frame is an open structured instruction.
type frame struct {
	op     byte
	region int // index in points of the head that pays for the code around it

	dispatch *dispatch // loop: set if it is a dispatch loop
	labels   *dispatch // block: set if it is one of a dispatch loop's
	label    int       // block: which one
}

// meterer meters the bodies of one module. Its buffers are used again for each.
type meterer struct {
	mod       *module
	maxLocals int
	maxDepth  int
	fuel      []byte // the fuel global's index, encoded

	points  []point
	frames  []frame
	region  int  // index in points of the head that pays for the next instruction
	locals  int  // of this body, parameters included
	scratch bool // the body needs a scratch local

	blocks  int // blocks so far, as maxBlocks counts them
	merges  int // and as maxMerges counts them
	targets int // labels of br_table so far

	loops    []innerLoop // of this body, in the order of their jumps
	barrier  int         // offset in the last instruction that is not copied
	loopWork int64       // what the copies of all bodies so far add to the work

	opening *dispatch // dispatch loop whose blocks are being opened
	last    constJump // what the instructions before the next one were
}

// codeSection reads all bodies and meters each.
func (m *module) codeSection(r *reader) error {
	n := r.count("function bodies", m.opt.MaxFunctions, 3)
	if r.err == nil && n != len(m.funcs) {
		r.fail("%d bodies for %d functions", n, len(m.funcs))
	}
	if r.err != nil {
		return r.err
	}
	out := make([]byte, 0, len(r.b)-r.pos+(len(r.b)-r.pos)/8)
	out = binary.AppendUvarint(out, uint64(n))
	w := meterer{
		mod: m, maxLocals: m.opt.MaxLocals, maxDepth: m.opt.MaxDepth,
		fuel: binary.AppendUvarint(nil, uint64(m.globals)),
	}
	var body []byte
	var work int64
	targets := 0
	for i, t := range m.funcs {
		at, size := r.pos, int(r.u32())
		if size > m.opt.MaxBody {
			r.failAt(at, "body of %d bytes: the limit is %d", size, m.opt.MaxBody)
		}
		part := r.part(size)
		body = w.body(&part, m.params[t], body[:0])
		if part.err != nil {
			return fmt.Errorf("function %d: %w", m.imported+i, part.err)
		}
		work += w.work(w.merges)
		targets += w.targets
		if work > maxWork || targets > maxAllTargets {
			r.failAt(at, "module too complex: so many blocks, locals and branch targets would take long to compile")
			return r.err
		}
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	m.code = out
	return r.finish()
}

// body reads one function body with this many parameters from r and appends the
// metered one to out.
func (m *meterer) body(r *reader, params int, out []byte) []byte {
	start := r.pos
	groups := r.count("groups of locals", m.maxLocals, 2)
	firstGroup, locals := r.pos, params
	for range groups {
		at := r.pos
		n := int(r.u32())
		r.valueType()
		if locals += n; locals > m.maxLocals {
			r.failAt(at, "%d locals: the limit is %d", locals, m.maxLocals)
		}
		if r.err != nil {
			return out
		}
	}
	first := r.pos
	m.locals = locals
	m.scan(r)
	if r.err != nil {
		return out
	}
	m.limitLoops()
	if !m.scratch {
		out = append(out, r.b[start:first]...)
	} else {
		out = binary.AppendUvarint(out, uint64(groups+1))
		out = append(out, r.b[firstGroup:first]...)
		out = append(out, 1, typeI32)
	}
	done, loops := first, m.loops
	for i := range m.points {
		p := &m.points[i]
		var loop *innerLoop
		if len(loops) > 0 && loops[0].jump == i {
			loop, loops = &loops[0], loops[1:]
		}
		if !m.active(p) {
			continue
		}
		out = append(out, r.b[done:p.pos]...)
		done = p.pos
		if p.kind == thread {
			out = append(out, opBr)
			out = binary.AppendUvarint(out, uint64(p.depth))
			done = p.next
			continue
		}
		out = m.charge(out, p)
		if loop != nil {
			out, done = m.copyLoop(out, r.b, loop)
		}
	}
	return append(out, r.b[done:]...)
}

// work is what a body with this many merges adds to the sum that maxWork bounds.
func (m *meterer) work(merges int) int64 {
	return int64(merges) * int64(merges) * int64(max(m.locals, minLocals)) / minLocals
}

// active says whether a point changes the body: not the head of a dispatch loop
// that its jumps pay for, and not the jumps of one that is charged at its head.
func (m *meterer) active(p *point) bool {
	return p.kind != idle && (p.owner < 0 || m.points[p.owner].kind == idle)
}
