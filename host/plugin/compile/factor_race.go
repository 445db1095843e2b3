//go:build race

package compile

// factor is how many times as much a process may use: the race detector's own memory is
// counted, and everything takes longer.
const factor = 20
