//go:build !race

package main

import "time"

// raceDetector says whether the tests, and with them the server, run under it.
const raceDetector = false

// patience bounds every wait for something that should be a matter of moments,
// on a machine that has other things to do.
const patience = 30 * time.Second
