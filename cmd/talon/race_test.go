//go:build race

package main

// raceDetector says whether the tests, and with them the server, run under it.
const raceDetector = true
