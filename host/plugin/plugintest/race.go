//go:build race

package plugintest

const raceDetector = true
