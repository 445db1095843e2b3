//go:build race

package guest

// raceFactor is how many times as long a module may take to compile: a program under the
// race detector is that slow.
const raceFactor = 10
