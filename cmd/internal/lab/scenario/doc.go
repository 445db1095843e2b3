// Package scenario is the description of a network in which strategies and throttles are
// tried: relays in classes, Talons, repositories and those who publish, and what goes
// wrong, as TOML with a schema.
//
// A scenario is data and draws nothing: package world makes a network of it and a seed.
// Scenarios that are ready are embedded ([Builtin]).
package scenario
