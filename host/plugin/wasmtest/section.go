package wasmtest

import "slices"

// Section ids of the binary format.
const (
	IDCustom    byte = 0
	IDType      byte = 1
	IDImport    byte = 2
	IDFunction  byte = 3
	IDTable     byte = 4
	IDMemory    byte = 5
	IDGlobal    byte = 6
	IDExport    byte = 7
	IDStart     byte = 8
	IDElement   byte = 9
	IDCode      byte = 10
	IDData      byte = 11
	IDDataCount byte = 12
	IDTag       byte = 13
)

// Section is one section: its id and its content.
type Section struct {
	ID   byte
	Body []byte

	// Size is written instead of the content's length where it is not nil: any
	// bytes, a lie or a malformed number.
	Size []byte
}

// Assemble returns a module of these sections, in this order, whatever they are.
func Assemble(sections ...Section) []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		size := s.Size
		if size == nil {
			size = Uint(uint64(len(s.Body)))
		}
		b = slices.Concat(b, []byte{s.ID}, size, s.Body)
	}
	return b
}
