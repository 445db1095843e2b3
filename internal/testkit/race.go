package testkit

import "testing"

// SkipRace skips a test under the race detector: one goroutine computes for long in it, so
// that there is nothing to find.
func SkipRace(tb testing.TB) {
	tb.Helper()
	if RaceDetector {
		tb.Skip("one goroutine, and much to compute")
	}
}
