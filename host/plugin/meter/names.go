package meter

import "encoding/binary"

// Subsections of the name section.
const (
	namesModule    = 0
	namesFunctions = 1
	namesLocals    = 2
)

// custom reads a custom section. Of all of them only the names of the module and
// its functions are kept, for the stack traces of traps: the rest describes code
// at offsets that no longer hold, or is the host's to read from the original.
func (m *module) custom(r *reader) {
	if r.name() != "name" {
		r.pos = len(r.b)
		return
	}
	if m.names != nil {
		r.fail("second name section")
		return
	}
	m.names = append([]byte{4}, "name"...)
	for r.more() {
		id := r.byte()
		part := r.part(int(r.u32()))
		if r.err != nil {
			return
		}
		content := part.b[part.pos:]
		switch id {
		case namesModule:
			part.name()
		case namesFunctions:
			part.nameMap()
		case namesLocals:
			for range part.count("functions with names", maxVector, 2) {
				part.u32()
				part.nameMap()
				if part.err != nil {
					break
				}
			}
		default:
			continue
		}
		if r.err = part.finish(); r.err != nil {
			return
		}
		if id != namesLocals {
			m.names = append(m.names, id)
			m.names = binary.AppendUvarint(m.names, uint64(len(content)))
			m.names = append(m.names, content...)
		}
	}
}

func (r *reader) nameMap() {
	for range r.count("names", maxVector, 2) {
		r.u32()
		r.name()
		if r.err != nil {
			return
		}
	}
}
