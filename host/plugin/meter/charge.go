package meter

import (
	"encoding/binary"
)

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
