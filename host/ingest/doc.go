// Package ingest is the one way in: every event, whatever door it came through,
// passes Submit → verify → policy → one writer → commit → answer. Git data that has
// come takes the same way.
//
// It owns the order of effects, the batches of the writer, and the promise that a
// decision is true at the moment it takes effect. DESIGN.md in this folder says
// why it has this shape.
//
// Invariants:
//
//  1. Items of one source take effect in the order in which Submit returned; those of
//     different sources do not wait for each other's decisions (schedule).
//  2. An item is answered exactly once, and OK true only after its commit
//     (batch.answer).
//  3. A decision whose facts have changed before its turn is made again, with
//     everything before it visible (writer.turn), a bounded number of times.
//  4. The writer never calls a policy, and waits for one 10 ms at most (writer.wait).
//  5. What follows from a commit is data: the events to publish, in commit order, and
//     for a [Follower] what was removed and what changed in purgatory.
//  6. What a policy holds is answered OK true after its commit, and is published when
//     a release request releases it ([Pipeline.SubmitRelease]).
//
// It never parses JSON from outside, never looks at a socket, and never retries a
// write that failed: the item is answered with the error and the sender decides.
package ingest
