package policytest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// encoded returns the event for the encoder, with the id by which a test may find it in a store.
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

func matches(f *abi.Filter, e *Event) bool {
	id := e.id()
	if len(f.IDs) > 0 && !slices.Contains(f.IDs, [32]byte(id)) ||
		len(f.Authors) > 0 && !slices.Contains(f.Authors, [32]byte(e.PubKey)) ||
		len(f.Kinds) > 0 && !slices.Contains(f.Kinds, uint32(e.Kind)) ||
		f.Since != nil && e.CreatedAt < *f.Since || f.Until != nil && e.CreatedAt > *f.Until {
		return false
	}
	for _, want := range f.Tags {
		switch want.Name {
		case policy.ByAddress:
			if !slices.Contains(want.Values, e.address()) {
				return false
			}
			continue
		case policy.ByMaintainer:
			if !e.maintained(want.Values) {
				return false
			}
			continue
		}
		if !slices.ContainsFunc(e.Tags, func(tag []string) bool {
			return len(tag) > 1 && tag[0] == want.Name && slices.Contains(want.Values, tag[1])
		}) {
			return false
		}
	}
	return true
}

// d returns the value of the first d tag.
func (e *Event) d() string {
	for _, tag := range e.Tags {
		if len(tag) > 0 && tag[0] == "d" {
			return strings.Join(tag[1:min(len(tag), 2)], "")
		}
	}
	return ""
}

// address returns kind:pubkey:d, "" for a kind that has no address.
func (e *Event) address() string {
	switch {
	case e.Kind == 0, e.Kind == 3, e.Kind >= 10000 && e.Kind < 20000:
		return fmt.Sprintf("%d:%s:", e.Kind, hex.EncodeToString(e.PubKey[:]))
	case e.Kind >= 30000 && e.Kind < 40000:
		return fmt.Sprintf("%d:%s:%s", e.Kind, hex.EncodeToString(e.PubKey[:]), e.d())
	}
	return ""
}

// maintained reports whether e is an announcement that lists one of the maintainers,
// each as pubkey:identifier.
func (e *Event) maintained(by []string) bool {
	if e.Kind != 30617 {
		return false
	}
	for _, tag := range e.Tags {
		if len(tag) == 0 || tag[0] != "maintainers" {
			continue
		}
		for _, value := range tag[1:] {
			if len(value) == 64 && slices.Contains(by, strings.ToLower(value)+":"+e.d()) {
				return true
			}
		}
	}
	return false
}

// Hex returns the id of e as hex digits, for tags that name it.
func (e Event) Hex() string {
	id := e.id()
	return hex.EncodeToString(id[:])
}
