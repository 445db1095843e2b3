// Package policy is what the author of a policy in Go imports.
//
// A policy is a type with two methods, registered together with its manifest:
//
//	//go:embed manifest.json
//	var manifest string
//
//	var _ = policy.Register(manifest, new(rules))
//
//	func main() {}
//
//	func (r *rules) Configure(cfg policy.Config) error       { … }
//	func (r *rules) Admit(in policy.Input) policy.Verdict { … }
//
// and is compiled with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o rules.wasm
//
// A policy may also decide about queries, connections and pushes: it has a method
// of [Querier], [Connector] or [Pusher], and "functions" of its manifest names
// what the host is to call. What it may know of the relay, and what it keeps, it
// asks of the host: [Facts], which every input has.
//
// The same package compiles natively, so that a policy is tested with go test
// and package policytest.
//
// Invariants:
//
//  1. Reading an input and returning a [Verdict] allocates nothing.
//  2. What an input gives out (strings, events, tags) is valid until the method
//     returns. What the host answered with (events from the store, values) is
//     valid until the next function that answers with data: Get, Held, Query,
//     QueryHeld, KVGet, GitRef. Copy what you keep.
//  3. A module imports only the host functions that its code can reach.
//
// A policy has no files, no network, no clock but [Facts.Now] and no goroutines
// that live on between calls; a host ends a call that waits or runs too long.
package policy
