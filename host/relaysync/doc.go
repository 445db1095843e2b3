// Package relaysync keeps repositories complete from the relays that they list: it
// carries out the actions of a strategy (GRASP-02, proactive sync).
//
// What decides over time is in two state machines without I/O, clock or goroutine:
// package loop owns the strategy and all records about relays, package session is one
// connection to a relay. They exchange messages: commands for a session, reports for the
// loop. This package is the shell around them: it reads the one clock, dials, reads and
// writes frames, reads the store, and hands events to the pipeline. A simulation may put
// another shell around them.
//
// One goroutine ([Sync.Run]) runs the loop. Each relay has a line with a goroutine of its
// own, which runs the session, and two more that read and write. They share the memory of
// known events (package known), which has a lock.
//
// What a relay sends goes the way of every event: into the one pipeline, with
// [host.FromSync] as its origin, to be verified and judged as a client's is.
//
// Invariants:
//
//  1. No relay is trusted. What it sends is bounded in bytes, in time and in number,
//     and a relay that breaks the rules loses its connection, nothing more.
//  2. The loop never waits for a relay, nor for the pipeline. A relay's line waits for
//     both, and then stops reading.
//  3. A strategy can not make the host exceed [Limits], contact our own relay or (unless
//     [Config.AllowPrivate]) a private address, or drop a bootstrap relay. What is not
//     carried out is answered, at a bounded rate.
//  4. A strategy that fails, or is swapped, loses nothing: the next one begins with the
//     world as it is.
//  5. An event that was refused is compared as known, and not fetched again for a while;
//     one that may have come too early is decided again when what it needs arrives
//     (package retry).
//  6. The end of stored events is reported when the pipeline has answered all those
//     before it.
//  7. Our key proves itself (NIP-42) only to a relay that asks for it.
//
// The package judges no event and keeps no repository.
package relaysync
