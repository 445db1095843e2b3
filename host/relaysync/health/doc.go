// Package health says when a relay is connected to: it keeps what happened with each
// relay, across restarts, and asks a throttle module what follows.
//
// Invariants:
//
//  1. Where the module fails or there is none, the host's own numbers hold: 5 seconds
//     after a failure, doubled with each one up to an hour.
//  2. What a module says is bounded: no wait is longer than a day.
//  3. It is used by one goroutine, beside the one of Run.
package health
