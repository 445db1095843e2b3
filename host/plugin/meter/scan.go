package meter

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
