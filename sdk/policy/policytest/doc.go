// Package policytest runs a policy natively, so that it is tested with go test:
//
//	func TestGreeting(t *testing.T) {
//		h := policytest.New(t, manifest, new(rules), nil)
//		h.Want(policytest.Event{Kind: 1, Content: "hello"}, policy.ActionAccept, "")
//	}
//
// The configuration is checked against the manifest and the event is encoded
// and read in place, as a relay does it. Events are not verified: a test need
// not sign.
package policytest
