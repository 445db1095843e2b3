//go:build !race

package author

const raceDetector = false
