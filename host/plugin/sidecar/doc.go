// Package sidecar reads NAME.toml, the file beside NAME.wasm with which an
// operator says how a plugin runs; or which names a program that runs instead.
//
// Invariants:
//
//  1. Whatever the bytes, reading them takes bounded time and memory.
//  2. A key that does not exist is an error, never ignored: a limit that is
//     spelled wrong is a limit that is not there.
//  3. An error is one sentence with the line, the key, the value and what is
//     wanted.
//  4. [SetMode] changes no byte but those of the mode.
//
// The package opens no file, and does not know what the module is.
package sidecar
