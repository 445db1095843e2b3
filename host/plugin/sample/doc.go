// Package sample takes a sample of decisions: each becomes a line of JSON that says
// what was asked, which facts were read for it, and what was answered, as a vector
// that talon plugin test, run and replay read (package sdk/abi/manifest).
//
// A [Sample] is asked before a decision, and gives a [Take], or nil. The take hands on
// the facts and notes what they said; in the end it receives the answer, and writes
// the line. Whoever wants the lines fetches them with [Sample.Next].
//
// Invariants:
//
//  1. A decision never waits for the one who fetches lines: what does not fit into a
//     bounded queue is dropped and counted.
//  2. Lines, bytes and the size of one line are bounded, whatever is asked for.
//  3. A line holds nothing that the decision still changes.
//  4. What is to be redacted is in no line, also not among the facts.
package sample
