//go:build race

package guest

// raceDetector: sync.Pool drops what it is given at random under it, so that
// allocations cannot be counted.
const raceDetector = true
