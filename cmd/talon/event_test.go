package main

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// key returns the secret key of somebody.
func key(name string) string {
	sum := sha256.Sum256([]byte("talon test key of " + name))
	return hex.EncodeToString(sum[:])
}

func pubkey(name string) string {
	pub, err := nostr.GetPublicKey(key(name))
	if err != nil {
		panic(err)
	}
	return pub
}

// signAs completes an event: somebody's, of now unless it has a time.
func signAs(t testing.TB, name string, e nostr.Event) *nostr.Event {
	t.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Now()
	}
	if err := e.Sign(key(name)); err != nil {
		t.Fatal(err)
	}
	return &e
}

// message returns the EVENT message of an event.
func message(e *nostr.Event) []byte {
	text, err := nostr.EventEnvelope{Event: *e}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return text
}

// ids returns the ids of events, in order.
func ids(events []*nostr.Event) []string {
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = e.ID
	}
	return list
}
