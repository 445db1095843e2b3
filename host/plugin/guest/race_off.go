//go:build !race

package guest

// raceFactor is how many times as long a module may take to compile, and how many times
// as much memory.
const raceFactor = 1
