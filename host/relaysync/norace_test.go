//go:build !race

package relaysync

const raceDetector = false
