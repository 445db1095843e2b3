// Package schnorr verifies and signs events: the id is the hash of the content, and the
// signature is the author's over the id (NIP-01, BIP-340). It is the one package of the
// server that links the C library.
//
// Invariants:
//
//  1. The C library sees only fields of the right length: [host.Event] cannot
//     hold others.
//  2. Verify and Sign keep no state and may run in many goroutines.
package schnorr

import (
	"encoding/hex"
	"errors"
	"fmt"
	"unsafe"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
)

// ErrKey says that 32 bytes are no secret key: zero, or not below the order of
// the curve.
var ErrKey = errors.New("it is not a secret key of the curve")

// PublicKey returns the public key of a secret key, or [ErrKey].
func PublicKey(secret [32]byte) (host.PubKey, error) {
	var e host.Event
	err := Sign(secret, &e)
	return e.PubKey, err
}

// Sign fills in the author, the id, the signature and the JSON of e; a nil list
// of tags becomes an empty one. It returns [ErrKey] or nil. No error quotes the
// key.
func Sign(secret [32]byte, e *host.Event) error {
	if e.Tags == nil {
		e.Tags = host.Tags{}
	}
	n := libraryEvent(e)
	if n.Sign(hex.EncodeToString(secret[:])) != nil ||
		!host.ParseHex(e.PubKey[:], n.PubKey) || !host.ParseHex(e.ID[:], n.ID) || !host.ParseHex(e.Sig[:], n.Sig) {
		return ErrKey
	}
	e.JSON = e.AppendJSON(nil)
	return nil
}

// libraryEvent returns what is hashed of e, but for the author, as the library
// takes it.
func libraryEvent(e *host.Event) nostr.Event {
	return nostr.Event{
		CreatedAt: nostr.Timestamp(e.CreatedAt),
		Kind:      int(e.Kind),
		// The library's tags are slices of slices of strings as well, under other
		// names: only their header is copied.
		Tags:    *(*nostr.Tags)(unsafe.Pointer(&e.Tags)),
		Content: e.Content,
	}
}

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
