//go:build !race

package compile

// factor is how many times as much a process may use.
const factor = 1
