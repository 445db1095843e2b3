// Package layers is what strategies share that follow repositories in three
// layers:
//
//   - layer 1: announcements (30617) and states (30618), of each relay
//   - layer 2: whatever tags our repositories by a, A or q
//   - layer 3: whatever tags their root events by e, E or q
//
// [Index] is what is wanted, and turns it over: from repositories to relays.
// [Peer] is a relay, with what is pending and what is confirmed. [Plan] takes the
// second and third from the first. [Driver] runs a [Strategy], which is what one
// strategy does differently from another:
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
// [Set], [Index] and [Timers] are of use to strategies of another kind, too.
//
// Invariants:
//
//  1. An item is confirmed when nothing that asks a relay for its past is pending
//     there any more, and only after something live was open for it. Where a
//     relay allows no further subscription, it is confirmed without.
//  2. What has not arrived stays pending until it has, or until the connection
//     ends. A fetch that fails is made again, from where it stopped.
//  3. What takes the place of open subscriptions stands before they are closed.
//     Where limits forbid that, what may have come in between is fetched.
//  4. An item that one open subscription asks for is not asked for in another, but
//     for as long as the one takes the place of the other. That is so, too, when it
//     was not wanted for a while, or its repository was gone for up to a day.
//  5. The number of an item is given out again only after every peer has dropped
//     it.
//  6. A step does a bounded amount of work. The rest follows immediately, by a
//     timer.
//  7. Nothing depends on the order of a map, or on anything but the inputs.
package layers
