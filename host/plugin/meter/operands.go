package meter

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
