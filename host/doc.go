// Package host is the vocabulary of Talon: the values that its packages pass
// to each other. It holds no machinery.
//
// Everything that wants to change what is stored becomes an [Item] in one
// pipeline (package ingest). A policy answers an item with a [Ruling], the
// pipeline answers it with a [Verdict], and a commit returns what follows from
// it as data ([Outcome]), never as a callback upward.
//
// Invariants:
//
//  1. An [Event] is immutable once it has been parsed; it may be shared between
//     goroutines.
//  2. Event.JSON is the text that is stored and sent, and parses to the same
//     event.
//  3. Reasons that reach a client start with a prefix of NIP-01 or NIP-42
//     ("invalid: ", "blocked: ", …).
package host
