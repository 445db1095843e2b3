package guest

import "unsafe"

// Log calls the host function "log".
func Log(level int32, text string) {
	logLine(level, unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

//go:wasmimport talon log
//go:noescape
func logLine(level int32, text unsafe.Pointer, length uint32)
