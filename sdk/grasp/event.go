package grasp

import (
	"strings"
)

// PubKey is an author's public key.
type PubKey = [32]byte

// ID is an event id.
type ID = [32]byte

// Kinds of NIP-34, and of what goes with them.
const (
	KindComment      = 1111 // NIP-22
	KindPatch        = 1617
	KindPullRequest  = 1618
	KindPRUpdate     = 1619
	KindIssue        = 1621
	KindOpen         = 1630
	KindApplied      = 1631 // merged or resolved
	KindClosed       = 1632
	KindDraft        = 1633
	KindGraspList    = 10317
	KindAnnouncement = 30617
	KindState        = 30618
)

// Stamp is what orders events: who signed what, and when.
type Stamp struct {
	ID        ID
	PubKey    PubKey
	CreatedAt int64 // unix seconds
}

// Newer reports whether s replaces t: it is later, or of the same second with the
// lower id (NIP-01).
func (s *Stamp) Newer(t *Stamp) bool {
	if s.CreatedAt != t.CreatedAt {
		return s.CreatedAt > t.CreatedAt
	}
	return string(s.ID[:]) < string(t.ID[:])
}

// Event is what the rules read of a nostr event.
type Event struct {
	Stamp
	Kind int
	Tags [][]string
}

// first returns the value of the first tag with this name, "" if there is none.
func (e *Event) first(name string) string {
	for _, tag := range e.Tags {
		if len(tag) > 0 && tag[0] == name {
			if len(tag) > 1 {
				return tag[1]
			}
			return ""
		}
	}
	return ""
}

// all returns all values of all tags with this name, but for empty ones.
func (e *Event) all(name string) (values []string) {
	for _, tag := range e.Tags {
		if len(tag) == 0 || tag[0] != name {
			continue
		}
		for _, value := range tag[1:] {
			if value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

// has reports whether there is a tag with this name and value.
func (e *Event) has(name, value string) bool {
	for _, tag := range e.Tags {
		if len(tag) > 1 && tag[0] == name && tag[1] == value {
			return true
		}
	}
	return false
}

const hexDigits = "0123456789abcdef"

func appendHex(b []byte, data []byte) []byte {
	for _, c := range data {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

func hexString(key [32]byte) string { return string(appendHex(nil, key[:])) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ParseID parses the 64 lower-case hex digits of an event id.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != 64 || !isHex(s) {
		return ID{}, false
	}
	for i := range id {
		id[i] = nibble(s[2*i])<<4 | nibble(s[2*i+1])
	}
	return id, true
}

func nibble(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c - 'a' + 10
}

// ParseObject returns the name of a git object in lower case. It reports false for
// what is not 40 or 64 hex digits, and for all zeros, by which git means that
// there is none.
func ParseObject(s string) (object string, ok bool) {
	if len(s) != 40 && len(s) != 64 {
		return "", false
	}
	if !isHex(s) {
		lower := lowerASCII(s)
		if !isHex(lower) {
			return "", false
		}
		s = lower
	}
	return s, !IsZero(s)
}

// IsZero reports whether s is 40 or 64 zeros, the object name of what does not
// exist.
func IsZero(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0") == ""
}

// lowerASCII leaves letters beyond ASCII as they are: some become ASCII ones in
// lower case.
func lowerASCII(s string) string {
	if !hasCapital(s) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

//go:noinline
func hasCapital(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'Z' {
			return true
		}
	}
	return false
}
