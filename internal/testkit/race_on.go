//go:build race

package testkit

const RaceDetector = true
