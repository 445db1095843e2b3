// Package retry remembers events that were refused, and says when one of them is
// worth another try: when something that it names, or that names it, has been
// accepted since, and, of one that is dated ahead, when its time has come. So neither
// the order in which events arrive nor somebody's clock decides what is kept.
//
// Why an event was refused is not asked: a policy gives a reason for people. An event
// that would be refused whatever arrives costs its place and a few tries.
//
// Invariants:
//
//  1. A [Set] holds at most so many events and bytes as its limits say, each for at
//     most so long, counted from its date if it is dated ahead, and gives each out at most so many times. One that is due stays so
//     until it is taken, however many others are.
//  2. When there is no room, the source that has most events in the set loses its
//     oldest: one that sends rubbish pushes out its own.
//  3. Nothing that arrives between the decision about an event and [Set.Add] is
//     missed: the mark that was taken before the decision says what is new.
//
// A set has no clock, lock or goroutine: one goroutine owns it.
package retry
