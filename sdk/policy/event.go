package policy

import (
	"encoding/hex"

	"talon/sdk/abi"
	"talon/sdk/nip19"
)

// ID is an event id.
type ID [32]byte

// PubKey is an author's public key.
type PubKey [32]byte

func (id ID) String() string     { return hex.EncodeToString(id[:]) }
func (pk PubKey) String() string { return hex.EncodeToString(pk[:]) }

// ParsePubKey decodes an npub (NIP-19) or 64 hex digits.
func ParsePubKey(s string) (PubKey, error) {
	key, err := nip19.ParsePubKey(s)
	return PubKey(key), err
}

// Event is a nostr event, read in place.
type Event struct{ v *abi.EventView }

func (e Event) ID() ID {
	var id ID
	copy(id[:], e.v.ID())
	return id
}

func (e Event) PubKey() PubKey {
	var pk PubKey
	copy(pk[:], e.v.PubKey())
	return pk
}

// Author is PubKey without a copy. It is valid as long as the event.
func (e Event) Author() *PubKey {
	if b := e.v.PubKey(); len(b) == len(PubKey{}) {
		return (*PubKey)(b)
	}
	return new(PubKey)
}

// CreatedAt is in unix seconds.
func (e Event) CreatedAt() int64 { return e.v.CreatedAt() }

// Kind is 0 to 65535.
func (e Event) Kind() int { return int(e.v.Kind()) }

func (e Event) Content() string { return e.v.Content() }

// Tags returns an iterator over the tags:
//
//	for it := in.Event().Tags(); it.Next(); {
//		if it.Name() == "t" && it.Value() == "nostr" {
func (e Event) Tags() abi.TagIter { return e.v.Tags() }

// TagBytes returns the size of the tags as they are encoded: at least two bytes
// for each tag and each item, and the items themselves. It costs nothing, and
// bounds what walking the tags would count.
func (e Event) TagBytes() int { return e.v.TagBytes() }

// TagCount returns the number of tags. It costs much less than walking them.
func (e Event) TagCount() int { return e.v.TagCount() }

// Tag returns the value of the first tag with this name, and whether there is
// one.
func (e Event) Tag(name string) (value string, ok bool) {
	for it := e.v.Tags(); it.Next(); {
		if it.Name() == name {
			return it.Value(), true
		}
	}
	return "", false
}
