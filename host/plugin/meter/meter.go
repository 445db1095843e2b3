package meter

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// FuelExport is the name under which a metered module exports its fuel: a
// mutable i64 global. What remains is not negative; a negative value after a
// trap says that the guest ran out.
const FuelExport = "talon.fuel"

// Options bounds a module. A limit of zero stands for its default.
type Options struct {
	// StartFuel is what the global holds when the module is instantiated: what
	// the start function, and any other that runs before the host sets the
	// global, may spend together.
	StartFuel int64

	MaxModule    int // bytes; default 32 MiB
	MaxFunctions int // defined functions; default 100,000
	MaxBody      int // bytes of one function; default 256 KiB
	MaxLocals    int // locals of one function, parameters included; default 10,000
	MaxDepth     int // blocks open at one time in a function; default 8,000
	MaxTable     int // elements of one table, and of all when they are created; default 100,000
}

func (o Options) withDefaults() Options {
	set := func(limit *int, n int) {
		if *limit <= 0 {
			*limit = n
		}
	}
	set(&o.MaxModule, 32<<20)
	set(&o.MaxFunctions, 100_000)
	set(&o.MaxBody, 256<<10)
	set(&o.MaxLocals, 10_000)
	set(&o.MaxDepth, 8_000)
	set(&o.MaxTable, 100_000)
	return o
}

// Rewrite returns the module with fuel metering added. The module that it is
// given is not changed. An error says what is wrong and at which byte;
// [errors.ErrUnsupported] is its cause if the module needs a feature that the
// engine does not run.
//
// Rewrite does not validate everything: what it returns has to be compiled, and
// is valid exactly if the module was.
func Rewrite(wasm []byte, opt Options) ([]byte, error) {
	if opt.StartFuel < 0 {
		return nil, errors.New("meter module: negative start fuel")
	}
	m, err := parse(wasm, opt.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("meter module: %w", err)
	}
	return m.write(len(wasm)), nil
}

// write assembles the metered module.
func (m *module) write(size int) []byte {
	fuel := binary.AppendUvarint(nil, uint64(m.globals))
	out := append(make([]byte, 0, size+len(m.code)/4+1024), "\x00asm\x01\x00\x00\x00"...)
	for _, id := range order {
		switch part := m.sections[id]; {
		case id == idGlobal:
			global := append([]byte{typeI64, 1, 0x42}, appendSigned(nil, m.opt.StartFuel)...)
			out = extend(out, id, part, append(global, opEnd))
		case id == idExport:
			export := append([]byte{byte(len(FuelExport))}, FuelExport...)
			out = extend(out, id, part, append(append(export, 3), fuel...))
		case part == nil:
		case id == idTable:
			out = appendSection(out, id, m.tables)
		case id == idCode:
			out = appendSection(out, id, m.code)
		default:
			out = appendSection(out, id, part.b[part.pos:])
		}
	}
	if m.names != nil {
		out = appendSection(out, idCustom, m.names)
	}
	return out
}

// extend appends the section, a vector, with one more item at its end.
func extend(out []byte, id byte, part *reader, item []byte) []byte {
	n, rest := uint32(0), []byte(nil)
	if part != nil {
		r := *part
		n, rest = r.u32(), r.b[r.pos:]
	}
	count := binary.AppendUvarint(nil, uint64(n)+1)
	out = append(out, id)
	out = binary.AppendUvarint(out, uint64(len(count)+len(rest)+len(item)))
	out = append(out, count...)
	out = append(out, rest...)
	return append(out, item...)
}

func appendSection(out []byte, id byte, body []byte) []byte {
	out = append(out, id)
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}
