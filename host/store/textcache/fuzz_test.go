package textcache

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestLendTakesTheOpenPiece lends memory while the piece that takes the next short text is
// among the oldest. The cache panicked then, in Add and in Get.
func TestLendTakesTheOpenPiece(t *testing.T) {
	c := New(16 << 20)
	short, long := make([]byte, 100), make([]byte, 20_000)
	c.Add(1, short)
	for i := range int64(40) {
		c.Add(2+i, long)
	}
	c.Lend(12 << 20)
	if c.Add(50, short) == nil {
		t.Error("a short text is not kept after memory was lent")
	}
	for seq := range int64(64) {
		c.Get(seq)
	}
	checkBounds(t, c, 16<<20, 12<<20)
}

// The operations of [runOperations]: an operation is opSize bytes, of which the first
// chooses what happens and the others choose the row and the size.
const (
	opAdd = iota
	opAddLong
	opGet
	opLend
	opClear
	ops
)

const opSize = 4

// runOperations carries out operations on a cache and on a model, which remembers the text of
// each row for ever. The cache may have forgotten a text. It must never return a wrong one,
// never take more bytes than it has, and never panic.
func runOperations(t *testing.T, limit int64, program []byte) {
	c := New(limit)
	model := make(map[int64][]byte)
	lent := int64(0)
	for ; len(program) >= opSize; program = program[opSize:] {
		seq := int64(program[1]) * 3
		n := int(binary.LittleEndian.Uint16(program[2:]))
		switch program[0] % ops {
		case opAdd, opAddLong:
			if program[0]%ops == opAdd {
				n %= 700
			}
			text, known := model[seq]
			if !known {
				text = bytes.Repeat([]byte{byte(seq)}, n)
				if n >= 8 {
					binary.LittleEndian.PutUint64(text, uint64(seq))
				}
				model[seq] = text
			}
			given := bytes.Clone(text)
			kept := c.Add(seq, given)
			clear(given)
			if kept != nil && !bytes.Equal(kept, text) {
				t.Fatalf("row %d is kept as %d bytes, want %d", seq, len(kept), len(text))
			}
			if kept == nil && len(text) <= int(limit-lent)/shards/64 && limit >= 1<<20 {
				t.Fatalf("a text of %d bytes is not kept in a cache of %d", len(text), limit-lent)
			}
			if got := c.Get(seq); kept != nil && !bytes.Equal(got, text) {
				t.Fatalf("row %d was just added and is %d bytes, want %d", seq, len(got), len(text))
			}
		case opGet:
			text, known := model[seq]
			if got := c.Get(seq); got != nil && (!known || !bytes.Equal(got, text)) {
				t.Fatalf("row %d is %d bytes, want %d", seq, len(got), len(text))
			}
		case opLend:
			lent = int64(n) * limit / 40_000 // also more than there is
			c.Lend(lent)
			lent = min(lent, limit/4*3)
		case opClear:
			c.Clear()
			if got := c.Get(seq); got != nil {
				t.Fatalf("row %d is %d bytes after Clear", seq, len(got))
			}
		}
		checkBounds(t, c, limit, lent)
	}
}

// checkBounds checks that the cache takes no more than its bytes, less what is lent.
func checkBounds(t *testing.T, c *Cache, limit, lent int64) {
	t.Helper()
	var size int64
	for i := range c.shards {
		s := &c.shards[i]
		size += int64(cap(s.sets)) * setSize
		for _, piece := range s.pieces {
			size += int64(cap(piece))
		}
	}
	// Each shard rounds what is lent down.
	if most := max(limit, 0) - lent + shards; size > most {
		t.Fatalf("%d bytes are kept, more than %d", size, most)
	}
}

func FuzzCache(f *testing.F) {
	f.Add(uint32(16<<20), []byte{opAdd, 1, 100, 0, opGet, 1, 0, 0})
	// Short, then long ones of the same shard, then a loan.
	program := []byte{opAdd, 1, 100, 0}
	for i := range byte(20) {
		program = append(program, opAddLong, 2+i, 0x20, 0x4e)
	}
	program = append(program, opLend, 0, 0xff, 0xff, opAdd, 0, 100, 0, opGet, 1, 0, 0)
	f.Add(uint32(16<<20), program)
	f.Add(uint32(1<<20), program)
	f.Add(uint32(0), program)
	f.Add(uint32(30_000), program)
	f.Fuzz(func(t *testing.T, limit uint32, program []byte) {
		runOperations(t, int64(limit%(64<<20)), program[:min(len(program), 4096)])
	})
}

// TestRandomOperations does what the fuzz target does, from a few seeds.
func TestRandomOperations(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		program := make([]byte, 2000*opSize)
		for i := range program {
			program[i] = byte(r.Uint32())
		}
		// Loans are rare, and so is Clear.
		for i := 0; i < len(program); i += opSize {
			if program[i]%ops >= opLend && r.IntN(8) > 0 {
				program[i] = opAdd
			}
		}
		runOperations(t, int64(r.IntN(24<<20)), program)
	}
}
