// Package session is one connection to a relay as a state machine: it turns the loop's
// commands ([Command]) into messages (NIP-01, NIP-42, NIP-77), and what the relay sends
// into events for the pipeline and reports for the loop.
//
// A [Session] has no clock, goroutine, lock or I/O. Its user calls its inputs with the
// time in unix milliseconds, which never goes back, and does what [Session.Effects]
// returns, in order. Equal inputs give equal effects. It begins when the connection is
// made, and ends with the effect [End], or when its user lets it go.
//
//	input                                     answers
//	Do(command)                               the loop
//	Receive(message), Heard(bytes)            the relay
//	Answered(what became of an event)         Submit
//	Built(set)                                Build
//	Missing(ids)                              Lookup
//	Texts(events)                             Read
//	Turn: time has passed                     its own last answer, or any input
//
// What is open is a [request] on the relay (REQ) with an owner: a subscription, a page of
// a fetch, or a chunk of ids. A fetch compares (reconciliation), and asks for what it
// found in chunks; or it asks page by page. Each of these is a type of its own with a
// file of its own, as are room (how many requests the relay takes), pace (how fast it is
// asked), size (how long a message it takes), auth, push, liveness and drain (requests
// that we closed).
//
// Invariants:
//
//  1. Nothing that a relay sends makes the session panic, grow without a bound, or go
//     on for ever: see [Limits].
//  2. A violation that counts needs something that only a dishonest or broken relay
//     does. What was on its way when we closed a request is taken.
//  3. A subscription is open when the relay has answered it: with EOSE, or with an
//     event. Eose is reported when the pipeline has answered everything before it.
//  4. What the relay refuses, by whatever words, is sent again when there is reason to
//     hope, or reported.
//  5. Only what is verified is remembered as refused.
package session
