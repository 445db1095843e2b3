// Package throttletest runs a throttle natively, so that it is tested with go
// test:
//
//	func TestSlots(t *testing.T) {
//		h := throttletest.New(t, manifest, new(gentle), nil)
//		full := abi.Subject{Kind: throttle.Domain, Name: "git.example.com", InFlight: 5}
//		if got := h.Admit(abi.ThrottleAdmitRequest{Subject: full}); got != throttle.WaitForEnd() {
//			t.Errorf("%+v", got)
//		}
//	}
//
// [Vectors] runs the tests that the module carries in its manifest, so that go test
// shows what a relay will see before it lets the module decide.
//
// The configuration is checked against the manifest, requests and answers are
// encoded, read in place and decoded within limits, as a host does it.
package throttletest
