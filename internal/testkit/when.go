package testkit

import (
	"os"
	"testing"

	"talon/internal/race"
)

// SkipRace skips a test under the race detector: one goroutine computes for long in it, or waits for
// other programs, so that there is nothing to find. make race-all skips it, too.
func SkipRace(tb testing.TB) {
	tb.Helper()
	if race.Detector {
		tb.Skip("one goroutine, with much to compute or to wait for")
	}
}

// Scale reports whether tests run in their full size, as make scale has them run every night.
// make test has time for a small form only.
func Scale() bool { return os.Getenv("TALON_TEST_SCALE") != "" }

// Nightly skips a test that only make scale has time for. The reason names what covers the
// same in make test.
func Nightly(tb testing.TB, reason string) {
	tb.Helper()
	if !Scale() {
		tb.Skip("TALON_TEST_SCALE is not set: " + reason)
	}
}

// Sized returns how large a test is: small in make test, and full in make scale.
func Sized(small, full int) int {
	if Scale() {
		return full
	}
	return small
}
