// Package daemon puts the parts of Talon together. It is the only package that
// knows them all; it holds no behaviour of its own beyond the order in which
// things start and stop.
//
// [Core] is what decides and stores; import uses it alone. [Daemon] adds the interfaces
// for other people.
package daemon
