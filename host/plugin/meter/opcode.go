package meter

// operands says how the immediate operands of an instruction are encoded.
type operands uint8

const (
	unknown  operands = iota
	none              // no operands
	open              // block, loop, if: a block type
	middle            // else
	end               // end
	branch            // br, br_if: a label
	index             // one index that metering does not change
	index2            // two of them
	local             // a local index
	global            // a global index
	table             // br_table
	memarg            // alignment and offset
	zero              // one zero byte: the only memory
	number32          // a signed 32-bit number
	number64          // a signed 64-bit number
	bytes4
	bytes8
	bytes16
	lane       // one byte
	memargLane // alignment, offset and one byte
	selectType // a vector of one value type
	refType    // a reference type
	misc       // 0xfc: another opcode follows
	vector     // 0xfd: another opcode follows
	init2      // memory.init: an index and a zero byte
	zero2      // memory.copy: two zero bytes
)

const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opMemoryGrow  = 0x40
	opI32Const    = 0x41
	opMisc        = 0xfc
	opVector      = 0xfd

	miscMemoryInit = 8
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableFill  = 17
)

// opcodes holds the operands of each one-byte opcode.
var opcodes = func() (t [256]operands) {
	set := func(kind operands, first, last int) {
		for op := first; op <= last; op++ {
			t[op] = kind
		}
	}
	set(none, 0x00, 0x01) // unreachable, nop
	set(open, opBlock, opIf)
	t[opElse] = middle
	t[opEnd] = end
	set(branch, opBr, opBrIf)
	t[opBrTable] = table
	t[opReturn] = none
	t[0x10] = index       // call
	t[0x11] = index2      // call_indirect
	set(none, 0x1a, 0x1b) // drop, select
	t[0x1c] = selectType
	set(local, 0x20, 0x22)
	set(global, 0x23, 0x24)
	set(index, 0x25, 0x26)  // table.get, table.set
	set(memarg, 0x28, 0x3e) // loads and stores
	set(zero, 0x3f, opMemoryGrow)
	t[0x41] = number32
	t[0x42] = number64
	t[0x43] = bytes4
	t[0x44] = bytes8
	set(none, 0x45, 0xc4) // numeric, sign extension included
	t[0xd0] = refType
	t[0xd1] = none  // ref.is_null
	t[0xd2] = index // ref.func
	t[opMisc] = misc
	t[opVector] = vector
	return t
}()

// miscOpcodes holds the operands of what follows 0xfc.
var miscOpcodes = [18]operands{
	0: none, 1: none, 2: none, 3: none, 4: none, 5: none, 6: none, 7: none, // saturating truncation
	miscMemoryInit: init2,
	9:              index, // data.drop
	miscMemoryCopy: zero2,
	miscMemoryFill: zero,
	miscTableInit:  index2,
	13:             index, // elem.drop
	miscTableCopy:  index2,
	miscTableGrow:  index,
	16:             index, // table.size
	miscTableFill:  index,
}

// vectorOpcodes holds the operands of what follows 0xfd.
var vectorOpcodes = func() (t [256]operands) {
	for op := range t {
		t[op] = none
	}
	for op := 0x00; op <= 0x0b; op++ {
		t[op] = memarg // v128.load to v128.store
	}
	t[0x0c] = bytes16 // v128.const
	t[0x0d] = bytes16 // i8x16.shuffle
	for op := 0x15; op <= 0x22; op++ {
		t[op] = lane // extract_lane, replace_lane
	}
	for op := 0x54; op <= 0x5b; op++ {
		t[op] = memargLane
	}
	t[0x5c], t[0x5d] = memarg, memarg // v128.load32_zero, v128.load64_zero
	for _, gap := range []int{
		0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb,
		0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee,
	} {
		t[gap] = unknown
	}
	return t
}()

// feature names what an unknown one-byte opcode belongs to, "" if nothing.
func feature(op byte) string {
	switch {
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exception handling"
	case op == 0x12, op == 0x13, op == 0x15:
		return "tail calls"
	case op == 0x14, op >= 0xd3 && op <= 0xd6:
		return "typed function references"
	case op == 0xfb:
		return "garbage collection"
	case op == 0xfe:
		return "threads"
	}
	return ""
}

// weight is the cost of one instruction: nothing for what compiles to nothing,
// more than one for what takes much longer than others.
func weight(op byte) int64 {
	switch op {
	case 0x01, opBlock, opLoop, opElse, opEnd: // nop and structure
		return 0
	case opMemoryGrow:
		return growCost
	case 0xd2: // ref.func
		return refCost
	case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, // integer division and remainder
		0x91, 0x95, 0x9f, 0xa3: // square root and division of floats
		return divideCost
	}
	return 1
}

// Costs in fuel. Each other instruction costs one.
const (
	chargeCost   = 2  // the charge itself, at each head and jump
	dispatchCost = 2  // local.get and br_table at the head of a dispatch loop
	divideCost   = 4  // division
	bulkCost     = 8  // a bulk instruction of length zero
	growCost     = 64 // growing by nothing: the engine leaves compiled code

	refCost = 512 // ref.func: the engine leaves compiled code, and looks up

	bytesPerFuelLog2 = 3 // bulk memory instructions: one unit for eight bytes
	fuelPerPageLog2  = 16 - bytesPerFuelLog2
)

// vectorOpcode reads the second opcode after 0xfd. The engine takes it for one
// byte, where the specification has a number of up to five: 0x80 0x01 is read
// by the engine as opcode 0x80 and a nop. Only encodings that mean the same to
// both are accepted, so that nobody can hide a loop behind the difference.
func (r *reader) vectorOpcode(at int) operands {
	op := r.byte()
	if op >= 0x80 {
		switch next := r.byte(); {
		case next == 1:
		case next == 2 && r.err == nil:
			r.failAt(at, "opcode 0xfd %#02x 0x02 %w", op, unsupported("relaxed SIMD"))
		default:
			r.failAt(at, "malformed vector opcode")
		}
	}
	kind := vectorOpcodes[op]
	if kind == unknown {
		r.failAt(at, "unknown opcode 0xfd %#02x", op)
	}
	return kind
}

// operands moves past the operands of an instruction.
func (r *reader) operands(kind operands, at int) {
	switch kind {
	case none, unknown:
	case index:
		r.u32()
	case index2:
		r.u32()
		r.u32()
	case memarg, memargLane:
		if align := r.u32(); align >= 64 {
			r.failAt(at, "memory operand %w", unsupported("multiple memories"))
		}
		r.u32()
		if kind == memargLane {
			r.byte()
		}
	case zero:
		r.memoryZero(at)
	case zero2:
		r.memoryZero(at)
		r.memoryZero(at)
	case init2:
		r.u32()
		r.memoryZero(at)
	case number64:
		r.signed(64)
	case bytes4:
		r.skip(4)
	case bytes8:
		r.skip(8)
	case bytes16:
		r.skip(16)
	case lane:
		r.byte()
	case selectType:
		if n := r.byte(); n != 1 {
			r.failAt(at, "select of %d types", n)
		}
		r.valueType()
	case refType:
		r.refType()
	}
}

func (r *reader) memoryZero(at int) {
	if r.byte() != 0 {
		r.failAt(at, "memory index %w", unsupported("multiple memories"))
	}
}
