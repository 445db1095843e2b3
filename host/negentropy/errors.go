package negentropy

import (
	"errors"
	"fmt"
)

// ErrMessage is wrapped by every error that the bytes of a message cause.
var ErrMessage = errors.New("bad negentropy message")

// What can be wrong with a message.
var (
	ErrTruncated = fmt.Errorf("%w: cut short", ErrMessage)
	ErrVarint    = fmt.Errorf("%w: varint too long or too large", ErrMessage)
	ErrTimestamp = fmt.Errorf("%w: timestamp out of range", ErrMessage)
	ErrPrefix    = fmt.Errorf("%w: id prefix longer than 32 bytes, or behind infinity", ErrMessage)
	ErrOrder     = fmt.Errorf("%w: bounds not ascending", ErrMessage)
	ErrMode      = fmt.Errorf("%w: unknown mode", ErrMessage)
	ErrVersion   = fmt.Errorf("%w: unsupported protocol version", ErrMessage)
)

// What ends a reconciliation although the message is well-formed.
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
