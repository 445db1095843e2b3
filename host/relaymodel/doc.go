// Package relaymodel simulates a nostr relay of somebody else as a state machine: text
// frames of clients in, text frames and ends of connections out. How it behaves is data,
// a [Profile]: its limits and whether it advertises them, how it refuses, in which order
// it answers, what it forgets, when it is away, and how it lies. Tests, the devnet and
// simulations try sync against it.
//
// Profiles of relays that exist are embedded ([Builtin]); their texts and limits are
// those of the relays' sources.
//
// Invariants:
//
//  1. No I/O, clock, goroutine or lock. The time is an argument, in unix
//     milliseconds, and never goes back. One goroutine uses a [Relay] at a time.
//  2. The same profile, seed and calls return the same effects. What a profile gives
//     as a share of events is drawn from the seed and the event's id, so that an
//     event that is omitted once is omitted always.
//  3. What clients send is parsed by package wire and never ends the process.
//  4. A profile is read strictly: an unknown key, a wrong type or a value out of its
//     range is an error that names the line and the key.
//
// It is for tests and simulations: whoever reaches a relay of it can fill the memory.
package relaymodel
