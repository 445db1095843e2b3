//go:build !race

package guest

// raceFactor is how many times as long a module may take to compile.
const raceFactor = 1
