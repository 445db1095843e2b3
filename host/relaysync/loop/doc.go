// Package loop carries out the actions of a sync strategy, as a state machine: it owns
// the records of relays and repositories, the timers of the strategy, the budgets, and
// the events that are to be decided again.
//
// A [Loop] has no clock, goroutine, lock or I/O. Its user calls its inputs with the time
// in unix milliseconds, and does what [Loop.Effects] returns, in order. It asks the
// strategy, the throttle ([Health]) and the store ([Facts]) and gets answers without a
// delay; where these are deterministic, equal inputs give equal effects.
//
//	input                                   comes from
//	Start, Swapped, Turn                    its user
//	Up, Down                                Dial
//	Report                                  the session of a connection
//	Changed, Missed                         the pipeline: Published, Followed
//	Retried                                 Resubmit
//	Saved                                   Save
//
// step passes everything that matters to the strategy, one input after the other, and
// carryOut carries out its answers.
//
// Invariants:
//
//  1. A strategy cannot make the host exceed [Limits], contact our own relay or (unless
//     [Config.AllowPrivate]) a private address, or drop a bootstrap relay. What is not
//     carried out is answered, at a bounded rate.
//  2. A strategy that fails, or is swapped, loses nothing: the next one begins with the
//     world as it is ([Loop.Init]).
//  3. Reports of something that was replaced are ignored: every subscription, historic
//     and connection has a serial number.
//  4. An event that was refused is decided again when what it needs arrives (package
//     retry).
package loop
