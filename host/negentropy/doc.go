// Package negentropy finds the events that only one of two relays has, without sending
// the ids of those that both have: range-based set reconciliation, negentropy protocol v1
// as NIP-77 uses it. Messages are bytes here; their hex form and the frames around them
// belong to the caller.
//
// Both sides order their items by created_at, then id. A message is a list of
// adjacent ranges, each with the fingerprint of what its sender holds there, or
// with all the ids. The receiver leaves out ranges that are equal, splits those
// that are not into 16, and lists the ids of those with fewer than 32 items.
//
// # Why prefix sums
//
// A fingerprint hashes the sum of the ids of a range modulo 2^256. A [Set] keeps
// the sum of all ids before every 64th item, so that the sum of any range is the
// difference of two of them and at most 32 further additions at each end. A round
// therefore costs what it says, not what the set holds, and the set can be an
// immutable value shared by every session over the same filter. A sum at every
// 64th item is half a byte an item; one at every item would be 32.
//
// Items lie in chunks of 1,024, ids apart from times, and each chunk has its sums: a
// set grows without being copied, a set that has a few items more shares the chunks
// before them ([Set.With]), and a binary search reads times alone.
//
// Invariants:
//
//  1. A [Set] never changes, nor does memory that it shares with another. It may be
//     shared between goroutines.
//  2. The answer to a message depends on the set, the frame limit and the message
//     alone; a [Server] keeps nothing between messages.
//     It is the reference implementation's, byte for byte, but for one case in
//     which that one could lose items (the comment is in session.go).
//  3. An answer is never longer than the frame limit, nor than [MaxFrame].
//  4. Memory follows what was received, never a number claimed in a message.
//  5. What a message says is either answered or an error that wraps [ErrMessage];
//     no message causes a panic.
//
// The package does no I/O, and has no clock, context, logger or goroutine.
package negentropy
