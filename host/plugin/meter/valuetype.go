package meter

import (
	"math"
)

func (r *reader) globalType() {
	r.valueType()
	if mutable := r.byte(); mutable > 1 {
		r.failAt(r.pos-1, "malformed mutability %#02x", mutable)
	}
}

func (r *reader) memory() { r.limits("memory") }

func (r *reader) limits(what string) (low, limit uint32) {
	at := r.pos
	limit = math.MaxUint32
	flags := r.byte()
	switch {
	case flags > 7:
		r.failAt(at, "malformed limits %#02x", flags)
	case flags&4 != 0:
		r.failAt(at, "%s %w", what, unsupported("64-bit memories"))
	case flags&2 != 0:
		r.failAt(at, "%s %w", what, unsupported("threads"))
	}
	low = r.u32()
	if flags&1 != 0 {
		limit = r.u32()
	}
	return low, limit
}

const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeV128      = 0x7b
	typeFuncRef   = 0x70
	typeExternRef = 0x6f
	typeExnRef    = 0x69
	typeRefNull   = 0x63
	typeRef       = 0x64
	blockVoid     = 0x40
)

func (r *reader) valueType() { r.checkType(r.byte(), typeV128) }

func (r *reader) refType() { r.checkType(r.byte(), typeI32+1) }

// checkType accepts reference types, and number and vector types from lowest on.
func (r *reader) checkType(c byte, lowest byte) {
	switch {
	case c >= lowest && c <= typeI32, c == typeFuncRef, c == typeExternRef:
	case c == typeRefNull, c == typeRef:
		r.failAt(r.pos-1, "type %#02x %w", c, unsupported("typed function references"))
	case c == typeExnRef:
		r.failAt(r.pos-1, "type %#02x %w", c, unsupported("exception handling"))
	default:
		r.failAt(r.pos-1, "unknown type %#02x", c)
	}
}

// blockType reads the type of a structured instruction: none, one value type,
// or the index of a function type as a signed 33-bit number.
func (r *reader) blockType() {
	if r.pos < len(r.b) {
		switch c := r.b[r.pos]; {
		case c == blockVoid:
			r.pos++
			return
		case c > blockVoid && c < 0x80: // one byte, negative
			r.valueType()
			return
		}
	}
	if at, i := r.pos, r.signed(33); i < 0 {
		r.failAt(at, "malformed block type")
	}
}
