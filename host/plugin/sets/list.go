package sets

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"talon/host"
	"talon/host/wire"
)

// list is a nostr list that sets follow. Sets.mu guards it.
type list struct {
	address host.Address
	sets    []*set

	version *version // nil: there is none
	changes int      // counts what Published did
	stale   bool     // to be read from the store
}

// version identifies the event of a list. It does not hold the event, which may be large.
type version struct {
	id      host.ID
	at      int64 // created_at
	expires int64 // unix seconds; math.MaxInt64 is never
}

func versionOf(e *host.Event) *version {
	v := &version{id: e.ID, at: e.CreatedAt, expires: math.MaxInt64}
	if at, ok := e.Expiration(); ok {
		v.expires = at
	}
	return v
}

// replaces reports whether the event takes the place of the version (NIP-01).
func replaces(e *host.Event, v *version) bool {
	return v == nil || e.CreatedAt > v.at || e.CreatedAt == v.at && bytes.Compare(e.ID[:], v.id[:]) < 0
}

// readMembers returns the members of a list.
func readMembers(e *host.Event) (*members, error) {
	m := new(members)
	for _, tag := range e.Tags {
		if len(tag) < 2 {
			continue
		}
		value := tag[1]
		switch tag[0] {
		case "p", "e":
			var key [32]byte
			if host.ParseHex(key[:], value) {
				m.addKey(key)
			}
		case "a":
			if _, ok := host.ParseAddress(value); ok && len(value) <= maxText {
				m.addText(value)
			}
		case "t", "word", "r", "relay":
			if value != "" && len(value) <= maxText {
				m.addText(value)
			}
		}
		if m.len() > maxMembers {
			return nil, errMembers
		}
	}
	return m, nil
}

// fetch reads the version of the list that is stored, nil if there is none.
func fetch(ctx context.Context, facts host.Facts, a host.Address) (*host.Event, error) {
	f := host.Filter{Authors: []host.PubKey{a.PubKey}, Kinds: []host.Kind{a.Kind}, Limit: 1}
	if a.Kind.Class() == host.Addressable {
		// An event's address is in its first d tag, and a missing one is an empty
		// one: filters know neither.
		f.Limit = maxCandidates
		if a.D != "" {
			f.Tags = []host.TagFilter{{Name: 'd', Values: []string{a.D}}}
		}
	}
	texts, err := facts.Query(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("read list %s: %w", a, err)
	}
	for _, text := range texts {
		e, err := wire.ParseEvent(text)
		if err != nil {
			return nil, fmt.Errorf("read list %s: %w", a, err)
		}
		if b, ok := e.Address(); ok && a == b {
			return e, nil
		}
	}
	return nil, nil
}

// maxCandidates is how many of an author's lists of one kind are searched.
const maxCandidates = 500

// deletes reports whether the deletion, by the list's author, takes its version
// away (NIP-09).
func (l *list) deletes(deletion *host.Event) bool {
	if l.version == nil {
		return false
	}
	for _, tag := range deletion.Tags {
		if len(tag) < 2 {
			continue
		}
		switch tag[0] {
		case "e":
			var id host.ID
			if host.ParseHex(id[:], tag[1]) && id == l.version.id {
				return true
			}
		case "a":
			if a, ok := host.ParseAddress(tag[1]); ok && a == l.address && l.version.at <= deletion.CreatedAt {
				return true
			}
		}
	}
	return false
}
