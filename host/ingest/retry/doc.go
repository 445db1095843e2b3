// Package retry submits events again that a policy has refused only since it does not
// know their author yet: the profile and the relay list of somebody whose first issue
// comes right after them. It stands in front of the pipeline.
//
// A policy says of a refusal for how long it is to be tried again
// ([host.Verdict].Retry). The client is answered at once; what becomes of the event
// later it sees when it asks for it.
//
// Invariants:
//
//  1. An event that is submitted again takes the way of every other: it is verified,
//     all policies decide about it, on facts as they are by then, in a lane of its own.
//  2. What is remembered is bounded, by number and bytes, of each client's network and of
//     all; and in time by its first refusal, however often it is refused again.
//  3. An accepted event of an author has what is remembered of that author submitted
//     again once.
//
// It keeps nothing over a restart, and nothing of what other relays send.
package retry
