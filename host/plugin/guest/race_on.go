//go:build race

package guest

// raceFactor is how many times as long a module may take to compile, and how many times
// as much memory: a program under the race detector is that slow, and the detector's own
// memory is counted.
const raceFactor = 20
