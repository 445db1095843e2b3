package abi

import "unsafe"

// text returns b as a string without a copy. Views promise no more than that
// the result is valid as long as the bytes are.
func text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
