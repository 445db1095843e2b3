package meter

import "encoding/binary"

// A jump backward in a dispatch loop goes to the head of that loop, and from there
// through br_table to its label. A small loop of the source pays for this in each
// round, and the engine cannot see that it is a loop. So its code is written once
// more, as a loop of its own, where the jump stands:
//
//	end    ;; label N            end    ;; label N
//	…      ;; the body           …      ;; the body
//	if                           if
//	  i32.const N                  i32.const N
//	  local.set P                  local.set P
//	  br H ;; back to N            loop
//	end                              …      ;; the body
//	                                 if
//	                                   i32.const N
//	                                   local.set P
//	                                   br 1 ;; back to the loop
//	                                 end
//	                               end
//	                             end
//
// The first round runs the code that was there, all others run the copy. Where the
// copy ends, the code after the jump goes on, as it did. The copy charges what its
// original charges, at the same points.

// maxLoop is how many bytes of code are copied at most.
const maxLoop = 128

// maxLoopWork bounds what all copies add to the sum that maxWork bounds.
const maxLoopWork = maxWork / 4

// innerLoop is a loop within a dispatch loop: from a label to a jump back to it.
type innerLoop struct {
	jump   int // index in points of the jump
	end    int // offset of the instruction after the jump
	start  int // offset of the instruction after the label
	point  int // index in points of the first one from there on
	labels int // labels between start and jump
	nested int // blocks that are open at the jump, without those of the dispatch loop
	blocks int // blocks of the copy, as maxBlocks counts them
	merges int // and as maxMerges counts them
}

// addLoop notes the loop from a label of d to the jump before r, whose point comes
// next, if it can be copied. Loops of different labels do not overlap. Of the jumps to
// one label, the first and the last count: often one of them is taken hardly ever.
func (m *meterer) addLoop(r *reader, d *dispatch, target int) {
	start := &d.labels[target]
	nested := len(m.frames) - 1 - (d.frame + len(d.labels) - d.passed)
	if r.pos-start.pos > m.mod.opt.maxLoop || start.pos < m.barrier || nested > 1 {
		return
	}
	if nested == 1 && (!r.more() || r.b[r.pos] != opEnd) {
		return // what follows in this block would be skipped where the copy ends
	}
	n := len(m.loops)
	if n > 0 && m.loops[n-1].start != start.pos && m.loops[n-1].end > start.pos {
		return
	}
	if n > 1 && m.loops[n-2].start == start.pos {
		m.loops = m.loops[:n-1]
	}
	labels := d.passed - 1 - target
	m.loops = append(m.loops, innerLoop{
		jump: len(m.points), end: r.pos, start: start.pos, point: start.point,
		labels: labels, nested: nested,
		blocks: m.blocks - start.blocks + labels + 1,
		merges: m.merges - start.merges + labels + loopMerges,
	})
}

// limitLoops forgets the loops of a function that would become too complex with
// their copies: no module is refused for what they add.
func (m *meterer) limitLoops() {
	blocks, merges := m.blocks, m.merges
	for i := range m.loops {
		blocks += m.loops[i].blocks
		merges += m.loops[i].merges
	}
	work := m.work(merges) - m.work(m.merges)
	if blocks > maxBlocks || merges*max(m.locals, minLocals) > maxMerges || m.loopWork+work > maxLoopWork {
		m.loops = m.loops[:0]
		return
	}
	m.loopWork += work
}

// loopCopy is the copy of an inner loop that is being written.
type loopCopy struct {
	*innerLoop
	m      *meterer
	r      reader  // of the code up to the jump
	points []point // of that code, from the next one on
	out    []byte

	ahead   int   // labels that have not been passed
	height  int   // of the operand stack, within the innermost block
	heights []int // of the operand stack around each block that is open
	left    bool  // the last instruction has left the innermost block
}

// copyLoop appends the copy of a loop in code, in the place of its jump, and returns
// the offset at which code goes on. It appends nothing if the copy might not be valid,
// or not do the same, there: values on the operand stack belong to the code around it.
func (m *meterer) copyLoop(out, code []byte, l *innerLoop) ([]byte, int) {
	jump := &m.points[l.jump]
	c := loopCopy{
		innerLoop: l, m: m,
		r: reader{b: code[:jump.pos], pos: l.start}, points: m.points[l.point:l.jump],
		out:   append(out, opLoop, blockVoid),
		ahead: l.labels,
	}
	for range l.labels {
		c.out = append(c.out, opBlock, blockVoid)
	}
	for c.r.more() {
		if !c.instruction() {
			return out, jump.pos
		}
	}
	if c.left || c.height != 0 || c.r.err != nil {
		return out, jump.pos
	}
	c.out = append(m.charge(c.out, jump), opBr, byte(l.nested))
	if l.nested == 0 {
		return append(c.out, opEnd), jump.pos // the jump stays, for nothing gets there
	}
	return append(c.out, opEnd, opEnd), l.end
}

// instruction copies the next instruction, and returns false if it cannot be copied.
func (c *loopCopy) instruction() bool {
	at := c.r.pos
	op := c.r.byte()
	kind := opcodes[op]
	if c.left && kind != end && kind != middle {
		return false // what lies on the stack in code that is never reached is not known
	}
	c.left = op == opBr || op == opReturn || op == opUnreachable
	c.height += int(stackEffects[op])
	switch kind {
	case open:
		if c.r.byte() != blockVoid {
			return false
		}
		c.heights = append(c.heights, c.height)
	case middle:
		c.height = c.heights[len(c.heights)-1]
	case end:
		if n := len(c.heights) - 1; n >= 0 {
			c.height, c.heights = c.heights[n], c.heights[:n]
		} else {
			c.height = 0
			c.ahead--
		}
	case branch:
		c.branch(op, at)
		return true
	case local, global:
		c.r.u32()
	case number32:
		c.r.signed(32)
	default:
		c.r.operands(kind, at)
	}
	c.out = append(c.out, c.r.b[at:c.r.pos]...)
	return true
}

// branch copies br or br_if at this offset, after its opcode has been read.
func (c *loopCopy) branch(op byte, at int) {
	depth := c.r.u32()
	loop := uint32(len(c.heights) + c.ahead) // label of the copy
	back := false
	if len(c.points) > 0 && c.points[0].pos == at {
		p := &c.points[0]
		c.points = c.points[1:]
		switch {
		case !c.m.active(p):
		case p.kind == thread:
			depth = p.depth
		default:
			c.out = c.m.charge(c.out, p)
			back = p.next == c.start
		}
	}
	if back {
		depth = loop
	} else if depth >= loop {
		depth += 1 + uint32(c.nested) // out of the copy, and of what it stands in
	}
	c.out = binary.AppendUvarint(append(c.out, op), uint64(depth))
}

// notCopied is the stack effect of an instruction that is not copied: a call (the
// loop is not small then), an inner loop, br_table, and what is rare.
const notCopied = -128

// stackEffects holds by how many values the operand stack is higher after each
// instruction. Structured ones take their operand, and br nothing.
var stackEffects = func() (t [256]int8) {
	for op := range t {
		t[op] = notCopied
	}
	set := func(effect int8, first, last int) {
		for op := first; op <= last; op++ {
			t[op] = effect
		}
	}
	set(0, opUnreachable, opBlock) // and nop
	set(-1, opIf, opIf)
	set(0, opElse, opElse)
	set(0, opEnd, opBr)
	set(-1, opBrIf, opBrIf)
	set(0, opReturn, opReturn)
	set(-1, 0x1a, 0x1a) // drop
	set(-2, 0x1b, 0x1b) // select
	set(1, opLocalGet, opLocalGet)
	set(-1, opLocalSet, opLocalSet)
	set(0, 0x22, 0x22)  // local.tee
	set(1, 0x23, 0x23)  // global.get
	set(-1, 0x24, 0x24) // global.set
	set(0, 0x28, 0x35)  // loads
	set(-2, 0x36, 0x3e) // stores
	set(1, 0x3f, 0x3f)  // memory.size
	set(1, opI32Const, 0x44)

	set(-1, 0x45, 0xa6) // numeric instructions on two operands, and on one:
	set(0, 0x45, 0x45)  // i32.eqz
	set(0, 0x50, 0x50)  // i64.eqz
	set(0, 0x67, 0x69)  // i32.clz, ctz, popcnt
	set(0, 0x79, 0x7b)  // i64.clz, ctz, popcnt
	set(0, 0x8b, 0x91)  // f32.abs to sqrt
	set(0, 0x99, 0x9f)  // f64.abs to sqrt
	set(0, 0xa7, 0xc4)  // conversions
	return t
}()
