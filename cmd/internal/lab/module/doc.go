// Package module makes strategies and throttles ready for the lab: .wasm files, run as the
// server runs them, and strategies of Go that run natively.
//
// What bounds a call is its fuel, as in the server. The time that it takes is bounded far
// more loosely than there: a slow machine must not change a result.
package module
