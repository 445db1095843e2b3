// Package retry stores refused events, and decides when one of them is worth another try:
// when something that it names, or that names it, has been accepted since, and, of one
// that is dated ahead, when its time has come. So neither the order in which events
// arrive nor somebody's clock decides what is kept.
//
// Why an event was refused is not asked: a policy gives a reason for people. An event
// that would be refused whatever arrives costs its place and a few tries.
//
// Invariants:
//
//  1. [Limits] bound the events and bytes of a [Set], the time that each event is kept,
//     counted from its date if it is dated ahead, and the number of tries of each. One
//     that is due stays so until it is taken, however many others are.
//  2. When there is no room, the source that has most events in the set loses its
//     oldest: one that sends rubbish pushes out its own.
//  3. Nothing that arrives between the decision about an event and [Set.Add] is
//     missed: the mark that was taken before the decision says what is new.
//
// A set has no clock, lock or goroutine: one goroutine owns it.
package retry
