// Package guest is the part of a compiled module that all worlds share: the
// exports that there is one of in each module, the buffers, and the manifest.
// Natively it has [Cut] alone.
//
// Invariants:
//
//  1. A module exports talon_abi_1, talon_buffer and talon_configure once,
//     however many worlds it serves.
//  2. Every world is configured, in the order of registration; the first error
//     refuses the configuration.
//  3. A module has one manifest: worlds that register with different ones panic.
package guest

import "talon/sdk/abi"

// Cut shortens the reason of an action or an answer to what the host takes, not within a
// rune.
func Cut(s string) string {
	if len(s) <= abi.MaxActionReason {
		return s
	}
	n := abi.MaxActionReason
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
