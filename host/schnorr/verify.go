package schnorr

import (
	"errors"
	"fmt"

	"talon/host"
)

// ErrSignature says that the signature is not the author's over the event.
var ErrSignature = errors.New("signature is not valid")

// Verify checks the event's id, then its signature. It returns [host.ErrID],
// [ErrSignature], or nil.
func Verify(e *host.Event) error {
	if err := e.CheckID(); err != nil {
		return err
	}
	// The library hashes the event itself: it does not read the id.
	n := libraryEvent(e)
	n.PubKey, n.Sig = e.PubKey.String(), e.Sig.String()
	ok, err := n.CheckSignature()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if !ok {
		return ErrSignature
	}
	return nil
}
