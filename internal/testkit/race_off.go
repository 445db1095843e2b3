//go:build !race

package testkit

// RaceDetector says whether the tests, and the programs that they make of themselves, run
// under it. It drops at random what a sync.Pool is given, so that allocations cannot be
// counted, and what wazero compiles takes ten times as long.
const RaceDetector = false
