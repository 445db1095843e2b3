// Package policytest runs a policy natively, so that it is tested with go test:
//
//	func TestGreeting(t *testing.T) {
//		h := policytest.New(t, manifest, new(rules), nil)
//		h.Want(policytest.Event{Kind: 1, Content: "hello"}, policy.ActionAccept, "")
//	}
//
// A policy that is also asked about queries, connections or pushes is tested with
// [Harness.Query], [Harness.Connect] and [Harness.Push]. The fields of the harness
// stand in for the relay: what it stores, its sets and repositories, the time. What
// the policy keeps lives as long as the harness, and counts and expires as in a
// relay.
//
// [Vectors] runs the tests that the module carries in its manifest, so that go test
// shows what a relay will see before it lets the module decide.
//
// The configuration is checked against the manifest and the event is encoded
// and read in place, as a relay does it. Events are not verified: a test need
// not sign.
package policytest
