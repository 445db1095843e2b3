//go:build race

package examples

// raceDetector says that the tests run under the race detector: what wazero compiles
// takes minutes then.
const raceDetector = true
