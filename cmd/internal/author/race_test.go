//go:build race

package author

// raceDetector: to compile a Go module takes half a minute under it.
const raceDetector = true
