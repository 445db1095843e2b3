package meter

import (
	"encoding/binary"
	"math"
)

// tableSection reads the tables and writes them with their maximum capped: the
// engine bounds memories, not tables, and a table that grows by a little in
// each call would outgrow any budget of fuel.
func (m *module) tableSection(r *reader) {
	n := r.count("tables", maxTables, 3)
	m.tables = binary.AppendUvarint(nil, uint64(n))
	for range n {
		at := r.pos
		if at < len(r.b) && r.b[at] == blockVoid {
			r.fail("table with an initializer %w", unsupported("typed function references"))
		}
		r.refType()
		low, limit := r.limits("table")
		m.elements += int(min(low, math.MaxInt32))
		if m.elements > m.opt.MaxTable {
			r.failAt(at, "%d table elements: the limit is %d", m.elements, m.opt.MaxTable)
		}
		if r.err != nil {
			return
		}
		if low <= limit { // otherwise it is invalid, and has to stay so
			limit = min(limit, uint32(m.opt.MaxTable))
		}
		m.tables = append(m.tables, r.b[at], 1)
		m.tables = binary.AppendUvarint(m.tables, uint64(low))
		m.tables = binary.AppendUvarint(m.tables, uint64(limit))
	}
}

// elementSection reads element segments. Three bits of their leading number say
// how they are written: not active, with a table index (or declarative), with
// expressions in place of function indices.
func (m *module) elementSection(r *reader) {
	for range r.count("element segments", maxVector, 2) {
		at, flags := r.pos, r.u32()
		if flags > 7 {
			r.failAt(at, "malformed element segment %#x", flags)
		}
		active, explicit, expressions := flags&1 == 0, flags&2 != 0, flags&4 != 0
		if active && explicit {
			r.u32()
		}
		if active {
			m.constant(r)
		}
		switch typed := flags&3 != 0; {
		case typed && expressions:
			r.refType()
		case typed:
			if kind := r.byte(); kind != 0 {
				r.failAt(r.pos-1, "unknown element kind %#02x", kind)
			}
		}
		for range r.count("elements", maxVector, 1) {
			if expressions {
				m.constant(r)
			} else {
				r.u32()
			}
			if r.err != nil {
				return
			}
		}
	}
}

func (m *module) data(r *reader) {
	for range r.count("data segments", maxVector, 2) {
		at := r.pos
		switch flags := r.u32(); flags {
		case 0:
			m.constant(r)
		case 1:
		case 2:
			if r.u32() != 0 {
				r.failAt(at, "data segment %w", unsupported("multiple memories"))
			}
			m.constant(r)
		default:
			r.failAt(at, "malformed data segment %#x", flags)
		}
		r.skip(int(r.u32()))
		if r.err != nil {
			return
		}
	}
}

// trapIfSpent follows fuel's index: it traps when fuel is negative. The trap is in the
// branch that the engine puts out of the way: as "if spent, unreachable" each charge would
// be a jump that is taken, which makes tight loops a third slower.
var trapIfSpent = []byte{
	0x42, 0x00, // i64.const 0
	0x59,       // i64.ge_s
	0x04, 0x40, // if
	0x05, // else
	0x00, // unreachable
	0x0b, // end
}

// charge appends the code that spends fuel at a point. Its effect on the stack
// is nil. The scratch local is the one after the function's own.
func (m *meterer) charge(out []byte, p *point) []byte {
	switch p.kind {
	case head, jump:
		out = append(out, 0x23) // global.get
		out = append(out, m.fuel...)
		out = append(out, 0x42) // i64.const
		out = appendSigned(out, p.cost+chargeCost)
	default:
		// The length is the operand on top of the stack.
		out = append(out, 0x22) // local.tee
		out = binary.AppendUvarint(out, uint64(m.locals))
		out = append(out, 0x23) // global.get
		out = append(out, m.fuel...)
		out = append(out, 0x20) // local.get
		out = binary.AppendUvarint(out, uint64(m.locals))
		if p.kind == byBytes {
			out = append(out, 0x41, bytesPerFuelLog2, 0x76) // i32.const, i32.shr_u
		}
		out = append(out, 0xad) // i64.extend_i32_u
		if p.kind == byPages {
			out = append(out, 0x42, fuelPerPageLog2, 0x86) // i64.const, i64.shl
		}
	}
	out = append(out, 0x7d, 0x24) // i64.sub, global.set
	out = append(out, m.fuel...)
	out = append(out, 0x23) // global.get
	out = append(out, m.fuel...)
	return append(out, trapIfSpent...)
}

// appendSigned appends v as signed LEB128.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// The Go compiler turns the control flow of a function into one loop:
//
//	loop
//	  block … block
//	    local.get P
//	    br_table 0 1 2 …
//	  end           ;; label 0
//	  …
//	  end           ;; label 1
//	  …
//	  i32.const N
//	  local.set P
//	  br loop       ;; goto the label that N stands for
//
// Each jump of the source, forward or backward, passes the head of the loop.
// A charge there would be paid at each of them, for the whole function. But
// where such a jump goes is known, so it is charged instead, and the head is
// not: entering the loop has paid for one way through it from top to bottom; a
// jump forward needs nothing more, a jump backward pays for what lies between
// its label and itself, once more. A jump forward also becomes a branch to its
// label, since the way through br_table would do nothing else. What a jump backward
// becomes is in loop.go.
//
// If any branch to the head is not of this form, the loop is charged at its
// head like all others.

// dispatch is a dispatch loop.
type dispatch struct {
	local   uint32   // P
	targets []uint32 // label for each value of P; the last for all others

	labels []label
	passed int // labels that are not ahead: the first ones, since their blocks are nested

	frame  int   // index of the loop's frame; those of its blocks follow
	head   int   // index of the point at its head
	region int   // the region that it belongs to
	before int64 // sum of the region up to the loop
	pays   bool  // all branches to the head so far are jumps
}

// label is one of a dispatch loop that has been passed.
type label struct {
	sum    int64 // of the region up to it
	pos    int   // offset of the instruction after it
	point  int   // index in points of the first one after it
	blocks int   // blocks so far
	merges int
}

// findDispatch returns the dispatch loop whose body starts at r, nil if it is
// none.
func findDispatch(r reader) *dispatch {
	blocks := 0
	for r.pos+1 < len(r.b) && r.b[r.pos] == opBlock && r.b[r.pos+1] == blockVoid {
		r.pos += 2
		blocks++
	}
	if blocks == 0 || r.byte() != opLocalGet {
		return nil
	}
	d := &dispatch{local: r.u32(), pays: true}
	if r.byte() != opBrTable {
		return nil
	}
	n := 1 + r.count("branch targets", maxTargets, 1)
	if r.err != nil {
		return nil
	}
	d.targets = make([]uint32, n)
	for i := range d.targets {
		if d.targets[i] = r.u32(); int64(d.targets[i]) >= int64(blocks) {
			return nil
		}
	}
	d.labels = make([]label, blocks)
	return d
}

// constJump follows the instructions of a jump: i32.const, then local.set.
type constJump struct {
	stage uint8  // how many of them have been read
	value uint32 // N
	local uint32 // P
}

func (j constJump) set(local uint32) constJump {
	if j.stage != 1 {
		return constJump{}
	}
	return constJump{stage: 2, value: j.value, local: local}
}

// branch reads the label of br or br_if, whose cost has been added.
func (m *meterer) branch(r *reader, op byte, at int, last constJump) {
	depth := r.u32()
	if int64(depth) >= int64(len(m.frames)) {
		r.failAt(at, "label %d of %d", depth, len(m.frames))
		return
	}
	d := m.frames[len(m.frames)-1-int(depth)].dispatch
	if d == nil {
		return
	}
	if op != opBr || last.stage != 2 || last.local != d.local {
		d.pays = false
		return
	}
	target := int(d.targets[min(uint64(last.value), uint64(len(d.targets)-1))])
	p := point{pos: at, owner: d.head}
	if target < d.passed {
		m.block(r, at, 1, 1)
		p.kind, p.next = jump, d.labels[target].pos
		p.cost = m.points[d.region].cost - d.labels[target].sum + dispatchCost
		m.addLoop(r, d, target)
	} else {
		block := d.frame + len(d.labels) - target
		p.kind, p.next, p.depth = thread, r.pos, uint32(len(m.frames)-1-block)
	}
	m.points = append(m.points, p)
}

// branchTarget reads a label of br_table.
func (m *meterer) branchTarget(r *reader) {
	at, depth := r.pos, r.u32()
	if int64(depth) >= int64(len(m.frames)) {
		r.failAt(at, "label %d of %d", depth, len(m.frames))
		return
	}
	if d := m.frames[len(m.frames)-1-int(depth)].dispatch; d != nil {
		d.pays = false
	}
}
