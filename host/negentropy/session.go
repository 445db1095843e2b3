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
// A set has chunks of 1,024 items, each with its ids, its times and its sums. So a set
// grows without being copied. A set with a few more items shares the chunks before them
// ([Set.With]). A binary search reads only times.
//
// Invariants:
//
//  1. A [Set] never changes, nor does memory that it shares with another. It may be
//     shared between goroutines.
//  2. The answer to a message depends on the set, the frame limit and the message
//     alone; a [Server] keeps nothing between messages.
//     It equals the reference implementation's, byte for byte, except for one case
//     in which that one could lose items (a comment below describes it).
//  3. An answer is never longer than the frame limit, nor than [MaxFrame].
//  4. Memory follows what was received, never a number claimed in a message.
//  5. A message is either answered, or gives an error that wraps [ErrMessage].
//     No message causes a panic.
//
// The package does no I/O, and has no clock, context, logger or goroutine.
package negentropy

import (
	"errors"
	"fmt"

	"talon/host"
)

const (
	// MinFrame is the smallest frame limit of the protocol, in bytes.
	MinFrame = 4096

	// MaxFrame is the longest message that is ever written, in bytes, and what a
	// frame limit of 0 means.
	MaxFrame = 4 << 20

	// headroom is more than the bounds around a list of ids, its last id and the
	// fingerprint of the rest can need together.
	headroom = 200

	// buckets is the number of ranges into which one is split.
	buckets = 16

	// listBelow is the number of items from which a range is split rather than
	// listed.
	listBelow = 2 * buckets
)

// session is what both sides do in the same way: byte for byte what the
// reference implementation does, but for the case that answer names.
type session struct {
	set  *Set
	full int // a message longer than this takes no further range
}

func newSession(set *Set, frameLimit int) (session, error) {
	if frameLimit == 0 {
		frameLimit = MaxFrame
	}
	if frameLimit < MinFrame || frameLimit > MaxFrame {
		return session{}, errFrameLimit
	}
	return session{set: set, full: frameLimit - headroom}, nil
}

// answer reads the ranges of a message and returns the whole answer. A list of
// ids is answered with our own, or given to compare if that is not nil: lo and
// hi delimit our items in the range, ids are theirs.
//
// Ranges that the frame has no room for are answered with one fingerprint of
// all the rest, to which the peer comes back in its next message; they are not
// read further.
func (s *session) answer(ranges []byte, compare func(lo, hi int, ids []byte) error) ([]byte, error) {
	r, w := reader{b: ranges}, newWriter()
	var (
		last    bound // upper end of the range before
		lo      int   // index of last
		written int   // index of the last bound in w
		skipped bool  // last has not been written
	)
	for len(r.b) > 0 {
		b, mode, err := r.rangeHead()
		if err != nil {
			return nil, err
		}
		if b.compare(&last) < 0 {
			return nil, ErrOrder
		}
		hi := s.set.find(lo, &b)

		switch mode {
		case modeSkip:
			skipped = true

		case modeFingerprint:
			theirs, err := r.fingerprint()
			if err != nil {
				return nil, err
			}
			if theirs == s.set.fingerprint(lo, hi) {
				skipped = true
				break
			}
			start := len(w.b)
			if skipped {
				w.skip(&last)
			}
			s.split(&w, lo, hi, &b)
			if len(w.b) > s.full {
				w.b = w.b[:start]
				// The reference leaves this range out of the fingerprint, so that it differs from
				// the peer's and is split again. That fails if the peer holds nothing here: our
				// items would seem to be in agreement. So we use the true fingerprint.
				if theirs == emptyFingerprint {
					return s.appendRest(&w, written), nil
				}
				return s.appendRest(&w, hi), nil
			}
			skipped, written = false, hi

		case modeIDList:
			ids, err := r.idList()
			if err != nil {
				return nil, err
			}
			if compare != nil {
				if err := compare(lo, hi, ids); err != nil {
					return nil, err
				}
				skipped = true
				break
			}
			end, stop := b, hi
			if room := (s.full-len(w.b))/len(host.ID{}) + 1; room < hi-lo {
				stop = lo + room
				end = s.set.boundAt(stop)
			}
			if skipped {
				w.skip(&last)
			}
			w.idList(&end, s.set, lo, stop)
			if len(w.b) > s.full {
				return s.appendRest(&w, stop), nil
			}
			skipped, written = false, hi

		default:
			return nil, ErrMode
		}
		last, lo = b, hi
	}
	return w.b, nil
}

// appendRest ends a message with the fingerprint of the items from lo on.
func (s *session) appendRest(w *writer, lo int) []byte {
	w.fingerprint(&bound{time: infinity}, s.set.fingerprint(lo, s.set.Len()))
	return w.b
}

// split writes the items [lo, hi), up to the bound, as a list or as fingerprints
// of equal parts.
func (s *session) split(w *writer, lo, hi int, upper *bound) {
	if hi-lo < listBelow {
		w.idList(upper, s.set, lo, hi)
		return
	}
	size, larger := (hi-lo)/buckets, (hi-lo)%buckets
	for i := range buckets {
		next := lo + size
		if i < larger {
			next++
		}
		b := *upper
		if next < hi {
			b = s.set.boundBetween(next)
		}
		w.fingerprint(&b, s.set.fingerprint(lo, next))
		lo = next
	}
}

// Errors of a message.
var (
	ErrTruncated = fmt.Errorf("%w: cut short", ErrMessage)
	ErrVarint    = fmt.Errorf("%w: varint too long or too large", ErrMessage)
	ErrTimestamp = fmt.Errorf("%w: timestamp out of range", ErrMessage)
	ErrPrefix    = fmt.Errorf("%w: id prefix longer than 32 bytes, or behind infinity", ErrMessage)
	ErrOrder     = fmt.Errorf("%w: bounds not ascending", ErrMessage)
	ErrMode      = fmt.Errorf("%w: unknown mode", ErrMessage)
	ErrVersion   = fmt.Errorf("%w: unsupported protocol version", ErrMessage)
)

// Errors that end a reconciliation although the message is well-formed.
var (
	ErrTooManyIDs    = errors.New("too many differing ids")
	ErrTooManyRounds = errors.New("too many rounds")
)

var (
	errFrameLimit = fmt.Errorf("frame limit is neither 0 nor between %d and %d", MinFrame, MaxFrame)
	errCaps       = errors.New("caps on ids and rounds must be positive")
	errInitiated  = errors.New("already initiated")
	errNotOpen    = errors.New("not initiated, or done")
)
