// Package wire reads and writes the JSON of the nostr protocol: events, filters
// and the messages between client and relay (NIP-01, 42, 45, 77).
//
// Invariants:
//
//  1. Parsing never panics, never recurses, and allocates in proportion to its
//     input, whatever the input is.
//  2. What is accepted is JSON as RFC 8259 has it, in any valid encoding: escapes,
//     white space and order of fields do not matter. What is not valid JSON, or not
//     valid UTF-8, is refused, so that accepted text can be sent on as it lies.
//  3. A field that means something may stand once. Twice is an error: two readers
//     might pick different ones.
//  4. Every error is an [*Error], whose Reason is a sentence for the client with a
//     prefix of NIP-01.
//
// The package checks shapes only: ids and signatures are for package schnorr,
// what an event may contain is for the policy.
package wire
