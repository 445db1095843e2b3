// Package holdings remembers which events a relay is believed to hold, in six bytes an
// event, so that a comparison (NIP-77) can offer what the relay has instead of everything
// that is here: with nothing new the two sides are alike, and that costs one message each.
//
// A [Set] is a belief. It holds the first bytes of ids, whatever became of the events here:
// stored, held, refused or replaced. Whoever offers a set reads what is here and leaves out
// what the [View] does not have. So a belief that is wrong, old or lost costs bytes: an event
// that the relay has and the set has not is found by the comparison, one that the set has and
// the relay has not is taken out by it, and one that is not here is offered to nobody.
// Nothing that a relay says of itself changes what is offered to another.
//
// A set knows which filters were compared to their end with its relay. For any other the
// belief may lack what the relay has held all along, and everything here is the better offer.
//
// A set has no clock, lock or I/O: one goroutine owns it. A view may go to another.
package holdings
