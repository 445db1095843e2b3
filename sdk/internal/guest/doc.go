// Package guest is the part of a compiled module that all worlds share: the
// exports that there is one of in each module, the buffers, and the manifest.
// Natively it is empty.
//
// Invariants:
//
//  1. A module exports talon_abi_1, talon_buffer and talon_configure once,
//     however many worlds it serves.
//  2. Every world is configured, in the order of registration; the first error
//     refuses the configuration.
//  3. A module has one manifest: worlds that register with different ones panic.
package guest
