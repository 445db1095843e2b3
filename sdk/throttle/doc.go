// Package throttle is what the author of a throttle in Go imports: a module that
// decides how hard this service presses on other people's git servers and relays,
// and how much clients may press on this one.
//
//	//go:embed manifest.json
//	var manifest string
//
//	var _ = throttle.Register(manifest, new(gentle))
//
//	func main() {}
//
//	func (g *gentle) Admit(in throttle.AdmitInput) throttle.AdmitAnswer {
//		if in.Subject.InFlight >= 5 {
//			return throttle.WaitForEnd()
//		}
//		return throttle.Start()
//	}
//
// It is compiled with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o gentle.wasm
//
// and tested natively with package throttletest. What the messages mean is written
// in talon.proto of package abi.
//
// Invariants:
//
//  1. Each input carries the facts: what is in flight, when the latest requests
//     began, how often and since when it failed. A throttle that keeps nothing
//     loses nothing when it is swapped.
//  2. A decision allocates nothing but what the throttle itself does.
//  3. Texts and iterators of an input are valid until the method returns.
//  4. A point in time is in unix milliseconds, a length of time in milliseconds.
//  5. The operator's clamps hold whatever a throttle says.
package throttle
