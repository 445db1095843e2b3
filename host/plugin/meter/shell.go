package meter

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/binary"
	"io/fs"
	"slices"
	"strings"
)

//go:embed *.go
var sources embed.FS

// Version is a hash of the sources of this package without tests: it differs for a module that was made
// before a change.
func Version() (v [sha256.Size]byte) {
	sum := sha256.New()
	files, _ := fs.Glob(sources, "*.go") // the pattern is well formed
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, _ := fs.ReadFile(sources, name) // it is in the program
		sum.Write(binary.AppendUvarint([]byte(name), uint64(len(text))))
		sum.Write(text)
	}
	return [sha256.Size]byte(sum.Sum(nil))
}

// unreachable is a function that traps: no locals, the instruction, the end.
var unreachable = []byte{3, 0, 0x00, opEnd}

// Shell returns a module that was made by [Rewrite] with functions that do nothing but
// trap, in as few data segments as hold the same bytes. Everything else is as it was, but
// for names. It is for an engine that has the machine code of the functions already: to
// decode, validate and keep their bodies costs most of what loading a module costs.
func Shell(metered []byte) []byte {
	out := append(make([]byte, 0, len(metered)/2), metered[:8]...)
	r := reader{b: metered, pos: 8}
	counted := false // there is a data count section: segments are known by their numbers
	for r.more() {
		id := r.byte()
		part := r.part(int(r.u32()))
		switch {
		case id == idCustom:
		case id == idCode:
			n := part.u32()
			code := binary.AppendUvarint(nil, uint64(n))
			for range n {
				code = append(code, unreachable...)
			}
			out = appendSection(out, id, code)
		case id == idData && !counted:
			out = appendSection(out, id, mergeData(part))
		default:
			counted = counted || id == idDataCount
			out = appendSection(out, id, part.b[part.pos:])
		}
	}
	return out
}

// maxGap is how many zeros between two data segments are written out: a segment costs an
// engine more.
const maxGap = 256

// mergeData returns a data section whose segments, by their addresses, are put together,
// or the section as it is if they overlap or are not of the usual form. The Go linker
// begins a new one after every few zeros.
func mergeData(r reader) []byte {
	section := r.b[r.pos:]
	type segment struct {
		addr int64
		data []byte
	}
	segments := make([]segment, r.u32())
	for i := range segments {
		if r.byte() != 0 || r.byte() != opI32Const {
			return section
		}
		segments[i].addr = int64(uint32(r.signed(32)))
		if r.byte() != opEnd {
			return section
		}
		segments[i].data = r.skip(int(r.u32()))
	}
	slices.SortStableFunc(segments, func(a, b segment) int { return cmp.Compare(a.addr, b.addr) })
	var out, run []byte
	runs := uint64(0)
	for i := 0; i < len(segments); runs++ {
		begin, end := segments[i].addr, segments[i].addr
		for run = run[:0]; i < len(segments) && segments[i].addr-end <= maxGap; i++ {
			s := segments[i]
			if s.addr < end {
				return section
			}
			run = append(append(run, make([]byte, s.addr-end)...), s.data...)
			end = s.addr + int64(len(s.data))
		}
		out = appendSigned(append(out, 0, opI32Const), int64(int32(begin)))
		out = binary.AppendUvarint(append(out, opEnd), uint64(len(run)))
		out = append(out, run...)
	}
	return append(binary.AppendUvarint(nil, runs), out...)
}
