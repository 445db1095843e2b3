package policytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"talon/sdk/abi"
	"talon/sdk/policy"
)

// Event is an event as a test writes it.
type Event struct {
	ID        policy.ID // derived from the rest where it is zero
	PubKey    policy.PubKey
	CreatedAt int64 // the time of the harness where it is zero
	Kind      int
	Tags      [][]string
	Content   string
}

// JSON parses a nostr event.
func JSON(t testing.TB, text string) Event {
	t.Helper()
	var raw struct {
		ID        string     `json:"id"`
		PubKey    string     `json:"pubkey"`
		CreatedAt int64      `json:"created_at"`
		Kind      int        `json:"kind"`
		Tags      [][]string `json:"tags"`
		Content   string     `json:"content"`
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatalf("parse the event: %v", err)
	}
	e := Event{CreatedAt: raw.CreatedAt, Kind: raw.Kind, Tags: raw.Tags, Content: raw.Content}
	decode := func(dst []byte, field, s string) {
		t.Helper()
		if n, err := hex.Decode(dst, []byte(s)); err != nil || n != len(dst) {
			t.Fatalf("%s %q is not %d hex digits", field, s, 2*len(dst))
		}
	}
	if raw.ID != "" {
		decode(e.ID[:], "id", raw.ID)
	}
	decode(e.PubKey[:], "pubkey", raw.PubKey)
	return e
}

// encoded returns the event as it is written, with the id that a test may look
// for in a store.
func (e *Event) encoded(now int64) abi.Event[[]string] {
	id := e.id()
	at := e.CreatedAt
	if at == 0 {
		at = now
	}
	return abi.Event[[]string]{
		ID: id[:], PubKey: e.PubKey[:], Sig: make([]byte, 64),
		CreatedAt: at, Kind: uint32(e.Kind), Tags: e.Tags, Content: e.Content,
	}
}

func (e *Event) id() policy.ID {
	if e.ID != (policy.ID{}) {
		return e.ID
	}
	return sha256.Sum256(fmt.Appendf(nil, "%x %d %d %q %q", e.PubKey, e.CreatedAt, e.Kind, e.Tags, e.Content))
}
