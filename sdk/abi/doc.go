// Package abi is the boundary between Talon and its modules: the names of
// exports and imports, and the messages of talon.proto with hand-written code
// to write and read them. Both sides use it: the host, and guests through
// package policy.
//
// # Calls
//
// A module exports its memory as "memory", the marker [ExportMarker], and
//
//	talon_buffer(size i32) -> i32           the address of an input buffer of at least size bytes
//	talon_configure(len i32) -> i64         reads a Config from the buffer
//
// and the functions of its world; those of the policy world are at least one of
//
//	talon_admit(len i32) -> i64             reads an AdmitRequest from the buffer
//	talon_query(len i32) -> i64             reads a QueryRequest
//	talon_connect(len i32) -> i64           reads a ConnectRequest
//	talon_push(len i32) -> i64              reads a PushRequest
//
// The host asks for a buffer when the one that it has is too small, writes a
// message to its start and calls the function with the message's length. The
// buffer stays valid until the next talon_buffer. A result of 0 is "fine": the
// configuration is accepted, the policy passes. Any other result is
// address<<32 | length of a message in the module's memory: a Configured from
// talon_configure, a Verdict from the others. The host reads it before it calls
// again.
//
// # Host functions
//
// They are imported from [ImportModule], one import name for each capability,
// so that the import section says what a module can do. A function that
// answers with data is given the address and capacity of a buffer of the
// guest's; it returns the length of its answer and writes it only if it fits,
// so that a guest with too small a buffer can grow it and ask again. Nothing
// calls back into the guest while a host function runs.
//
// Invariants:
//
//  1. Encoders append to the buffer they are given and allocate nothing else.
//  2. Views read in place, allocate nothing and never panic, whatever the
//     bytes. They are valid as long as the bytes are.
//  3. Unknown fields are skipped; absent fields have their zero value.
//  4. The code and talon.proto describe the same messages.
//
// The package imports nothing that a guest would have to carry along. It never
// imports host packages.
//
//go:generate go run talon/internal/abigen
package abi
