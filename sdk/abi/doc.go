// Package abi is the boundary between Talon and its modules: the names of
// exports and imports, and the messages of talon.proto with code to write and
// read them. Both sides use it: the host, and guests through package policy.
//
// # What is generated
//
// go generate writes the files *_gen.go here, what the SDKs of other languages
// read and write, and docs/reference-messages.md, all from talon.proto; what is
// generated is checked in, and a test of internal/abigen says when it is not
// current. By hand is what is shaped by what a guest pays for it or by the types of
// its callers: the wire, an event and its tags, filters, the request about an
// event, the writer of a verdict, and checks that concern more than one field.
//
// # How to add a field
//
// Add a line to its message in talon.proto, with the next number and a note, and run
// go generate ./internal/abigen. Structs, writers, readers, the other languages, the JSON of
// vectors and the reference have the field then, unless the mark "go hand" stands above
// the message. Fill it in where the host writes the message, give it a value in the
// samples of the tests here, and run go test with -update in talon/sdk, talon/sdk/abi and
// ./internal/abigen, since the golden bytes, what they say and the exported API grow. The first list of a message that has none makes a
// view of the struct to read, as the golden API will say.
//
// A field of a message with that mark is added to its code here by hand; one of
// Verdict is read by all, and is written by [AppendVerdict]. A number above 15 takes
// two bytes on the wire: the generator refuses it until package abi writes them.
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
//  4. The code and talon.proto describe the same messages, also where it is by hand.
//
// The package imports nothing that a guest would have to carry along. It never
// imports host packages.
package abi
