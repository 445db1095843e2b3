package wasmtest

import (
	"encoding/binary"
	"math"
	"slices"
)

// Code is a sequence of encoded instructions.
type Code []byte

// Body joins pieces of code.
func Body(parts ...Code) Code { return slices.Concat(parts...) }

// Op returns bytes as code: any instruction, or none.
func Op(b ...byte) Code { return b }

// Void is the block type of a block without parameters and results. Other block
// types are a single result, such as BlockType(I32), or [TypeIndex].
const Void BlockType = 0x40

// BlockType is the type of a structured instruction: [Void] or a [ValType].
type BlockType byte

// Instructions without immediates.
var (
	Unreachable = Op(0x00)
	Nop         = Op(0x01)
	Else        = Op(0x05)
	End         = Op(0x0b)
	Return      = Op(0x0f)
	Drop        = Op(0x1a)
	Select      = Op(0x1b)

	I32Eqz  = Op(0x45)
	I32Eq   = Op(0x46)
	I32LtU  = Op(0x49)
	I32GeU  = Op(0x4f)
	I64Eqz  = Op(0x50)
	I32Add  = Op(0x6a)
	I32Sub  = Op(0x6b)
	I32Mul  = Op(0x6c)
	I32And  = Op(0x71)
	I32Or   = Op(0x72)
	I32Xor  = Op(0x73)
	I32ShrU = Op(0x76)
	I32Rotl = Op(0x77)
	I64Add  = Op(0x7c)
	I64Sub  = Op(0x7d)

	MemorySize = Op(0x3f, 0)
	MemoryGrow = Op(0x40, 0)
	MemoryCopy = Op(0xfc, 10, 0, 0)
	MemoryFill = Op(0xfc, 11, 0)
)

// Block opens a block.
func Block(t BlockType) Code { return Op(0x02, byte(t)) }

// Loop opens a loop.
func Loop(t BlockType) Code { return Op(0x03, byte(t)) }

// If opens a conditional.
func If(t BlockType) Code { return Op(0x04, byte(t)) }

// Open opens a structured instruction (0x02 block, 0x03 loop, 0x04 if) whose
// type is a function type of the module.
func Open(op byte, typeIndex uint32) Code { return append(Op(op), Int(int64(typeIndex))...) }

// Br branches to the label at this depth.
func Br(depth uint32) Code { return index(0x0c, depth) }

// BrIf branches to the label at this depth if the operand is not zero.
func BrIf(depth uint32) Code { return index(0x0d, depth) }

// BrTable branches to one of the depths; the last is the default.
func BrTable(depths ...uint32) Code {
	c := append(Op(0x0e), Uint(uint64(len(depths)-1))...)
	for _, d := range depths {
		c = append(c, Uint(uint64(d))...)
	}
	return c
}

// Call calls a function.
func Call(f uint32) Code { return index(0x10, f) }

// CallIndirect calls an element of a table.
func CallIndirect(typeIndex, table uint32) Code {
	return append(index(0x11, typeIndex), Uint(uint64(table))...)
}

// LocalGet, LocalSet and LocalTee access a local.
func LocalGet(i uint32) Code { return index(0x20, i) }

// LocalSet pops a value into a local.
func LocalSet(i uint32) Code { return index(0x21, i) }

// LocalTee copies the top of the stack into a local.
func LocalTee(i uint32) Code { return index(0x22, i) }

// GlobalGet pushes a global.
func GlobalGet(i uint32) Code { return index(0x23, i) }

// GlobalSet pops a value into a global.
func GlobalSet(i uint32) Code { return index(0x24, i) }

// Mem returns a load or store with its alignment (a power of two) and offset.
func Mem(op byte, align, offset uint32) Code {
	return append(index(op, align), Uint(uint64(offset))...)
}

// I32Load8U and I32Store8 access one byte, I32Load and I32Store four.
var (
	I32Load   = Mem(0x28, 2, 0)
	I32Load8U = Mem(0x2d, 0, 0)
	I32Store  = Mem(0x36, 2, 0)
	I32Store8 = Mem(0x3a, 0, 0)
)

// I32Const pushes a constant.
func I32Const(v int32) Code { return append(Op(0x41), Int(int64(v))...) }

// I64Const pushes a constant.
func I64Const(v int64) Code { return append(Op(0x42), Int(v)...) }

// F64Const pushes a constant.
func F64Const(v float64) Code {
	return binary.LittleEndian.AppendUint64(Op(0x44), math.Float64bits(v))
}

// RefFunc pushes a reference to a function.
func RefFunc(f uint32) Code { return index(0xd2, f) }

// RefNull pushes a null reference.
func RefNull(t ValType) Code { return Op(0xd0, byte(t)) }

// MemoryInit copies from a passive data segment.
func MemoryInit(data uint32) Code {
	return append(append(Op(0xfc, 8), Uint(uint64(data))...), 0)
}

// TableInit copies from a passive element segment.
func TableInit(elem, table uint32) Code {
	return append(append(Op(0xfc, 12), Uint(uint64(elem))...), Uint(uint64(table))...)
}

// TableCopy copies between tables.
func TableCopy(dst, src uint32) Code {
	return append(append(Op(0xfc, 14), Uint(uint64(dst))...), Uint(uint64(src))...)
}

// TableGrow grows a table.
func TableGrow(table uint32) Code { return append(Op(0xfc, 15), Uint(uint64(table))...) }

// TableFill fills a range of a table.
func TableFill(table uint32) Code { return append(Op(0xfc, 17), Uint(uint64(table))...) }

// Vec returns a vector instruction with its immediates.
func Vec(op byte, imm ...byte) Code {
	return slices.Concat(Op(0xfd), Uint(uint64(op)), imm)
}

func index(op byte, i uint32) Code { return append(Op(op), Uint(uint64(i))...) }
