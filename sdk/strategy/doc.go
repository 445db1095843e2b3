// Package strategy is what the author of a strategy in Go imports: a module that
// decides what this service subscribes to on which relay, and when.
//
// A strategy is a reducer. It receives what happens, one input at a time and in
// order, and returns what to do; the host does it. It has no clock but [Input.Now],
// no network, no files, and no goroutines that live on between calls.
//
//	//go:embed manifest.json
//	var manifest string
//
//	var _ = strategy.Register(manifest, new(plan))
//
//	func main() {}
//
//	func (p *plan) Configure(cfg strategy.Config) error { … }
//
//	func (p *plan) Step(in strategy.Input, out *strategy.Actions) {
//		switch in.Kind() {
//		case strategy.Init:
//			for it := in.Init().Repositories(); it.Next(); {
//				…
//				out.Connect(relay, 0, "named by "+repository)
//			}
//		case strategy.RelayConnected:
//			out.Subscribe(strategy.Subscription{Relay: in.RelayConnected().Relay, ID: "announcements", Filters: …})
//		}
//	}
//
// It is compiled with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o plan.wasm
//
// and tested natively with package strategytest. What the inputs and actions mean
// is written in talon.proto of package abi.
//
// Invariants:
//
//  1. The same inputs after the same configuration give the same actions: take
//     random numbers from the seed of Init, and do not depend on the order of a
//     map.
//  2. The first input is Init, and after it the strategy knows all that it
//     needs: another strategy may have run before it. An Init in several parts
//     comes with nothing in between.
//  3. What an Input gives out (texts, ids, views) is valid until Step returns. Copy
//     what you keep: strings.Clone.
//  4. A point in time is in unix milliseconds; what belongs to events is in unix
//     seconds.
package strategy
