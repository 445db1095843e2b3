//go:build !race

// Package race says whether a program runs under the race detector, which makes it many
// times slower, allocates, and counts its own memory to that of the program.
package race

const (
	// Detector says whether the program runs under the race detector.
	Detector = false

	// Factor is how many times as long something may take then, and how many times as much
	// memory: 1 without the detector.
	Factor = 1
)
