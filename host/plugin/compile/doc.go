// Package compile loads a module for the first time in a process of its own, which
// fills the cache of compiled code and runs the self-test there: what serves need then
// only read.
//
// Invariants:
//
//  1. While others are served, the process has the lowest priority, for processors and
//     disk. It is the first that the system ends when memory is short.
//  2. Its memory and its time on processors are bounded by the size of the module.
//  3. It ends with the process that started it.
//
// What it says is one sentence, as package guest says it. It does not make a module
// safe: the checks of package guest are made again where the module runs.
package compile
