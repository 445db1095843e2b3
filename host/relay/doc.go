// Package relay serves nostr clients over websockets, by NIPs 01, 11, 40, 42, 45, 70 and
// 77. It owns connections, subscriptions and negentropy sessions, and knows the store and
// the pipeline by small interfaces.
//
// A connection has one goroutine, which reads messages and handles them in order.
// What is to be sent lies in a queue; a second goroutine exists while there is
// something in it, and writes all of it with as few system calls as it can.
//
// Invariants:
//
//  1. Messages of a connection are handled in order. EVENTs are submitted without
//     waiting for each other; any other message waits until those before it have
//     been answered.
//  2. [Relay.Publish] never waits for a client. A connection whose queue is full
//     is cut off.
//  3. Stored answers wait for room in the queue, and hold nothing of the store
//     while they wait.
//  4. A subscription gets every event that matches and is visible to its query or
//     published after it, once: what is published while the query runs is held
//     back, and compared with the query's sequence number and, for filters that ask
//     for nothing stored, with its rows.
//  5. Nothing lives on under a subscription id after CLOSED has been sent for it.
//  6. An idle connection holds no buffer. What one connection may hold is bounded
//     by [Limits], whatever it sends.
//  7. What [Config.Clients] limits is limited at the next message, read or write, and
//     closes nothing that is open. A client over a limit waits or is refused alone.
//  8. Publishing costs what an event matches: subscriptions are found by key.
//  9. Whatever a client asks, it is read on the account of its address, on loopback of
//     its connection ([host.Share]).
//
// The package never judges an event: ids, signatures and policy belong to the
// pipeline. It checks signatures of AUTH alone, which are for it. Who may connect
// and what may be asked is for [Policy]; the relay asks, and does what it says.
package relay
