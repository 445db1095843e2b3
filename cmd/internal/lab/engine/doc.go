// Package engine runs a strategy and a throttle in a world: the loop and the sessions of
// production, the modules' own bytes, and relays that are played, in virtual time and one
// goroutine.
//
// Invariants:
//
//  1. Whatever takes time is an event in one queue; of the same time, what was queued first
//     happens first. There is no clock, no goroutine and no randomness: the world has drawn
//     it all.
//  2. A module that fails is a finding of the run. The run itself fails for no module, relay
//     or scenario.
//  3. Equal worlds, modules and levels make equal results, to the byte.
package engine
