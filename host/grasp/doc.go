// Package grasp has what only the host needs of GRASP: how long events are held,
// which held events a deletion takes, and the host's events as package sdk/grasp
// reads them. The rules themselves are there, since policy modules need them too.
//
// Invariants:
//
//  1. Everything is a function of its arguments, the time included.
//  2. How long something is held depends on two stored numbers and the time, so
//     that a crash, or a timer that comes late, changes nothing.
package grasp
