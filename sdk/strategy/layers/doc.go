// Package layers has the common parts of strategies that follow repositories in
// three layers:
//
//   - layer 1: announcements (30617) and states (30618), of each relay
//   - layer 2: all events that tag our repositories by a, A or q
//   - layer 3: all events that tag their root events by e, E or q
//
// Where a flow asks for it ([Peer.AskAuthors]), deletions by the authors of comments are a fourth
// one: these may tag only a comment.
//
// [Index] holds the wanted content, for each repository and for each relay. [Peer]
// is a relay with its pending and confirmed content. [Plan] takes both from the
// wanted content. [Driver] runs a [Strategy], which has the parts that differ
// between strategies:
//
//	type plan struct{ layers.Driver }
//
//	func (s *plan) Configure(cfg strategy.Config) error {
//		s.Driver.Configure(s, layers.Settings{Kinds: …, Values: 100, …})
//		return nil
//	}
//
//	func (s *plan) Fresh(p *layers.Peer, purpose uint32) {
//		p.Forget()
//		p.Open(layers.Announcements, layers.Opening{Live: true})
//		p.Fetch(layers.Announcements, layers.Fetching{Purpose: purpose, Track: true})
//		…
//	}
//
// [Set], [Index] and [Timers] are useful for other strategies, too.
//
// Invariants:
//
//  1. An item is confirmed when nothing that asks a relay for its past is pending
//     there any more, and only after something live was open for it. Where a
//     relay allows no further subscription, it is confirmed without.
//  2. Content stays pending until it has arrived, or until the connection
//     ends. A fetch that fails is made again, from where it stopped.
//  3. A replacement is open before the old subscriptions are closed. If limits
//     forbid that, the events of the gap are fetched.
//  4. Two open subscriptions never ask for the same item, except while one
//     replaces the other. This also holds if the item was not wanted for a while,
//     or its repository was gone for up to a day.
//  5. The number of an item is given out again only after every peer has dropped
//     it.
//  6. A step does a bounded amount of work. The rest follows immediately, by a
//     timer.
//  7. Nothing depends on the order of a map, or on anything but the inputs.
package layers
