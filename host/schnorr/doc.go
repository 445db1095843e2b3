// Package schnorr decides whether an event is what its author signed: the id is
// the hash of the content, and the signature is the author's over the id
// (NIP-01, BIP-340). It signs as well. It is the one package of the server that
// links the C library.
//
// Invariants:
//
//  1. The C library sees only fields of the right length: [host.Event] cannot
//     hold others.
//  2. Verify and Sign keep no state and may run in many goroutines.
package schnorr
