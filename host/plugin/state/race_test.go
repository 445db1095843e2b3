//go:build race

package state

// raceDetector: memory is not counted under it, which gives small things room of their
// own.
const raceDetector = true
