// Package known remembers events of all relays by id: those that are here, so that
// copies cost nothing, and those that were refused, so that they are not fetched again.
//
// Only what is proven goes in: an event that the pipeline refused is verified before
// [Set.Refuse], so that a forged copy cannot keep the real one out.
//
// A [Set] has a lock, since the sessions of relays run side by side, and no clock: times
// are unix seconds.
package known
