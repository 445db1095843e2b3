// Package world draws a network of a scenario and a seed: its relays, who publishes what
// where and when, and what goes wrong. Everything random of a run is drawn here, before it
// begins, so that all strategies that are tried with a seed have the same events and
// faults.
//
// Invariants:
//
//  1. Equal scenarios and seeds make equal worlds, on every machine: no clock, no order of
//     maps, and functions of floating-point numbers that do not depend on the processor.
//  2. Each thing that is drawn has a random stream of its own, so that a change of one
//     leaves the others as they are.
//  3. A world is not changed after [Draw]: runs share it.
//  4. Each wanted event is at one relay, at least, from which it can be had, if its
//     repository lists an honest one.
package world
