package meter

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
// Each jump of the source, forward or backward, passes the head of the loop. A charge there
// would be paid at each of them, for the whole function. But the target of such a jump is
// known, so the jump is charged instead of the head. Entering the loop has paid for one way
// through it from top to bottom. A jump forward costs nothing more. A jump backward pays
// once more for the code between its label and itself. A jump forward also becomes a branch
// to its label, since the way through br_table would do nothing else. See loop.go for jumps
// backward.
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
