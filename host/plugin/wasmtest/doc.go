// Package wasmtest assembles WebAssembly modules in Go code, for tests: small
// guests that do one thing, and hostile ones, are built where they are used and
// not committed as binaries.
//
// A [Module] is a literal whose fields are the sections of the binary format.
// [Module.Bytes] writes it; [Module.Sections] gives the sections one by one, so
// that a test can reorder, repeat or damage them before [Assemble] joins them.
//
// Invariants:
//
//  1. Nothing is checked: what a test writes down is what comes out, valid or
//     not.
//  2. The same module assembles to the same bytes.
//
// The package never runs or compiles a module, and no production code imports
// it.
package wasmtest
