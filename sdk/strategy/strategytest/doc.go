// Package strategytest runs a strategy natively, so that it is tested with go
// test, as a story of what happens and what is done:
//
//	func TestConnects(t *testing.T) {
//		h := strategytest.New(t, manifest, new(plan), nil)
//		h.Want(&abi.RelayConnected{Relay: "wss://r"},
//			`subscribe wss://r announcements {kinds 30617 30618}`)
//		h.WantAfter(5*strategy.Second, `disconnect wss://r: nothing left`)
//	}
//
// The configuration is checked against the manifest, inputs and actions are
// encoded, read in place and decoded within limits, as a host does it.
package strategytest
