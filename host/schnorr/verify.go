package schnorr

import (
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

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
	ok, err := nostr.Event{
		PubKey:    e.PubKey.String(),
		CreatedAt: nostr.Timestamp(e.CreatedAt),
		Kind:      int(e.Kind),
		Tags:      e.Tags,
		Content:   e.Content,
		Sig:       e.Sig.String(),
	}.CheckSignature()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if !ok {
		return ErrSignature
	}
	return nil
}
