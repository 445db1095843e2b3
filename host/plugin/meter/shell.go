package meter

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.go
var sources embed.FS

// Version is a hash of the sources of this package without tests: it differs for a module that was made
// before a change.
func Version() (v [sha256.Size]byte) {
	sum := sha256.New()
	files, _ := fs.Glob(sources, "*.go") // the pattern is well formed
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, _ := fs.ReadFile(sources, name) // it is in the program
		sum.Write(binary.AppendUvarint([]byte(name), uint64(len(text))))
		sum.Write(text)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// unreachable is a function that traps: no locals, the instruction, the end.
var unreachable = []byte{3, 0, 0x00, opEnd}

// Shell returns a module that was made by [Rewrite] with functions that do nothing but
// trap, in as few data segments as hold the same bytes. Everything else is as it was, but
// for names. It is for an engine that has the machine code of the functions already: to
// decode, validate and keep their bodies costs most of what loading a module costs.
func Shell(metered []byte) []byte {
	out := append(make([]byte, 0, len(metered)/2), metered[:8]...)
	r := reader{b: metered, pos: 8}
	counted := false // there is a data count section: segments are known by their numbers
	for r.more() {
		id := r.byte()
		part := r.part(int(r.u32()))
		switch {
		case id == idCustom:
		case id == idCode:
			n := part.u32()
			code := binary.AppendUvarint(nil, uint64(n))
			for range n {
				code = append(code, unreachable...)
			}
			out = appendSection(out, id, code)
		case id == idData && !counted:
			out = appendSection(out, id, mergeData(part))
		default:
			counted = counted || id == idDataCount
			out = appendSection(out, id, part.b[part.pos:])
		}
	}
	return out
}

// maxGap is how many zeros between two data segments are written out: a segment costs an
// engine more.
const maxGap = 256

// mergeData returns a data section whose segments, by their addresses, are put together,
// or the section as it is if they overlap or are not of the usual form. The Go linker
// begins a new one after every few zeros.
func mergeData(r reader) []byte {
	section := r.b[r.pos:]
	type segment struct {
		addr int64
		data []byte
	}
	segments := make([]segment, r.u32())
	for i := range segments {
		if r.byte() != 0 || r.byte() != opI32Const {
			return section
		}
		segments[i].addr = int64(uint32(r.signed(32)))
		if r.byte() != opEnd {
			return section
		}
		segments[i].data = r.skip(int(r.u32()))
	}
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.addr, b.addr) })
	var out, run []byte
	runs := uint64(0)
	for i := 0; i < len(segments); runs++ {
		begin, end := segments[i].addr, segments[i].addr
		for run = run[:0]; i < len(segments) && segments[i].addr-end <= maxGap; i++ {
			s := segments[i]
			if s.addr < end {
				return section
			}
			run = append(append(run, make([]byte, s.addr-end)...), s.data...)
			end = s.addr + int64(len(s.data))
		}
		out = appendSigned(append(out, 0, opI32Const), int64(int32(begin)))
		out = binary.AppendUvarint(append(out, opEnd), uint64(len(run)))
		out = append(out, run...)
	}
	return append(binary.AppendUvarint(nil, runs), out...)
}

// scan reads the instructions up to the end of the body into m.points.
func (m *meterer) scan(r *reader) {
	m.points = append(m.points[:0], point{pos: r.pos, owner: -1, cost: callCost + int64(m.locals)/localsPerFuel})
	m.frames = append(m.frames[:0], frame{})
	m.blocks, m.merges, m.targets = 0, 0, 0
	m.region, m.scratch, m.opening, m.last = 0, false, nil, constJump{}
	m.loops, m.barrier = m.loops[:0], 0
	for len(m.frames) > 0 && r.err == nil {
		m.instruction(r)
	}
	if r.err == nil && r.pos != len(r.b) {
		r.fail("code after the end of the function")
	}
}

// instruction reads one instruction and adds its cost to its region.
func (m *meterer) instruction(r *reader) {
	at, last := r.pos, m.last
	m.last = constJump{}
	op := r.byte()
	if stackEffects[op] == notCopied {
		m.barrier = r.pos
	}
	cost, kind := weight(op), opcodes[op]
	switch kind {
	case open:
		m.open(r, op, at)
		return
	case middle:
		if top := &m.frames[len(m.frames)-1]; top.op == opIf {
			top.op = opElse
		} else {
			r.failAt(at, "else without if")
		}
		return
	case end:
		m.end(r)
		return
	case local:
		i := r.u32()
		if int64(i) >= int64(m.locals) {
			r.failAt(at, "local %d of %d", i, m.locals)
		}
		if op == opLocalSet {
			m.last = last.set(i)
		}
	case global:
		m.mod.globalIndex(r)
	case number32:
		m.last = constJump{stage: 1, value: uint32(r.signed(32))}
	case branch:
		m.points[m.region].cost += cost
		m.branch(r, op, at, last)
		return
	case table:
		n := 1 + r.count("branch targets", maxTargets-m.targets, 1)
		m.targets += n
		for range n {
			m.branchTarget(r)
		}
	case misc:
		cost, kind = m.misc(r, at)
		r.operands(kind, at)
	case vector:
		r.operands(r.vectorOpcode(at), at)
	case unknown:
		if f := feature(op); f != "" {
			r.failAt(at, "opcode %#02x %w", op, unsupported(f))
		} else {
			r.failAt(at, "unknown opcode %#02x", op)
		}
	default:
		if op == opMemoryGrow {
			m.bulk(r, at, byPages)
		}
		r.operands(kind, at)
	}
	m.points[m.region].cost += cost
}

// open enters a block, loop or if.
func (m *meterer) open(r *reader, op byte, at int) {
	typeAt := r.pos
	r.blockType()
	if len(m.frames) > m.maxDepth {
		r.failAt(at, "blocks nested deeper than %d", m.maxDepth)
	}
	merges := 1
	if op == opLoop {
		merges = loopMerges
	}
	m.block(r, at, 1, merges)
	m.points[m.region].cost += weight(op)
	f := frame{op: op, region: m.region}
	switch {
	case m.opening != nil:
		d := m.opening
		f.labels = d
		f.label = d.frame + len(d.labels) - len(m.frames)
		if f.label == 0 {
			m.opening = nil
		}
	case op == opLoop:
		m.points = append(m.points, point{pos: r.pos, owner: -1})
		if r.err == nil && r.b[typeAt] == blockVoid {
			f.dispatch = findDispatch(*r)
		}
		if d := f.dispatch; d == nil {
			m.region = len(m.points) - 1
		} else {
			d.frame, d.head, d.region = len(m.frames), len(m.points)-1, m.region
			d.before = m.points[m.region].cost
			m.points[d.head].kind = idle
			m.opening = d
		}
	}
	m.frames = append(m.frames, f)
}

// block counts what makes the function slow to compile.
func (m *meterer) block(r *reader, at, blocks, merges int) {
	m.blocks += blocks
	m.merges += merges
	if m.blocks > maxBlocks || m.merges*max(m.locals, minLocals) > maxMerges {
		r.failAt(at, "function too complex: %d blocks with %d locals", m.blocks, m.locals)
	}
}

// end leaves the innermost block, loop or if, or the function.
func (m *meterer) end(r *reader) {
	f := m.frames[len(m.frames)-1]
	m.frames = m.frames[:len(m.frames)-1]
	m.region = f.region
	sum := &m.points[m.region].cost
	if f.labels != nil {
		f.labels.labels[f.label] = label{
			sum: *sum, pos: r.pos, point: len(m.points), blocks: m.blocks, merges: m.merges,
		}
		f.labels.passed++
	}
	if d := f.dispatch; d != nil && !d.pays {
		// Some branch was not understood: the loop is charged at its head, like
		// any other, for what has been added to the region around it.
		m.points[d.head].kind = head
		m.points[d.head].cost = *sum - d.before
		*sum = d.before
	}
}

// misc reads the second opcode after 0xfc and returns its cost and operands.
func (m *meterer) misc(r *reader, at int) (int64, operands) {
	op := r.byte()
	if int(op) >= len(miscOpcodes) {
		r.failAt(at, "unknown opcode 0xfc %#02x", op)
		return 0, unknown
	}
	cost := int64(1)
	switch op {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		m.bulk(r, at, byBytes)
		cost = bulkCost
	case miscTableInit, miscTableCopy, miscTableFill:
		m.bulk(r, at, byLength)
		cost = bulkCost
	case miscTableGrow:
		m.bulk(r, at, byLength)
		cost = growCost
	}
	return cost, miscOpcodes[op]
}

func (m *meterer) bulk(r *reader, at int, by pointKind) {
	m.points = append(m.points, point{pos: at, kind: by, owner: -1})
	m.scratch = true
	m.block(r, at, bulkBlocks, bulkBlocks)
}
