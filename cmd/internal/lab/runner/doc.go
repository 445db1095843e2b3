// Package runner makes many runs of the lab: every variant of modules and scenario with
// every seed, several at once, their results in one order that does not depend on how many
// that are.
package runner
