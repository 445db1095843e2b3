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
// The same package compiles natively, so that a policy is tested with go test
// and package policytest.
//
// Invariants:
//
//  1. Reading an [Input] and returning a [Verdict] allocates nothing.
//  2. What an Input gives out (strings, events, tags) is valid until Admit
//     returns. Events from the store are valid until the next call of Get or
//     Query. Copy what you keep.
//  3. A module imports only the host functions that its code can reach.
//
// A policy has no files, no network, no clock but [Input.Now] and no goroutines
// that live on between calls; a host ends a call that waits or runs too long.
package policy
