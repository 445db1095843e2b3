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
