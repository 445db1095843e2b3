// Package testkit is what tests of many packages share: people who sign events,
// git as somebody runs it who works with a repository, a network in
// memory, waiting for a condition, and what work costs. Only tests import it.
//
// Invariants:
//
//  1. It links no C: a test of a package without C is one without C as well.
//  2. It imports nothing of Talon but package host, so that the tests inside any
//     other package may import it.
//  3. The same calls make the same bytes in every run.
//  4. No wait has a bound of its own: only the deadline of the whole test binary
//     (go test -timeout) ends it, so that a machine that pauses fails no test.
package testkit

import (
	"testing"
)

// SkipRace skips a test under the race detector: one goroutine computes for long in it, so
// that there is nothing to find.
func SkipRace(tb testing.TB) {
	tb.Helper()
	if RaceDetector {
		tb.Skip("one goroutine, and much to compute")
	}
}
