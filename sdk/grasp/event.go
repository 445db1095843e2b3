// Package grasp has the rules of NIP-34 and GRASP as values: repository announcements and states,
// pull requests, maintainer sets, conditions of a push, and rules of a service. The host and the
// policy modules use the same code. So the verdicts of a module and the actions of the host on a
// repository cannot drift apart.
//
// It lives in the sdk because a module must not import the host. It is small
// enough for a guest: it has its own reading of URLs, since net/url makes a
// module 0.9 MB larger (1.9 MB to 2.8 MB), and no map where a sorted list will do.
//
// Invariants:
//
//  1. Everything is a function of its arguments. There is no clock, no I/O, no
//     goroutine and no state that outlives a call.
//  2. No input makes a function panic. Time and memory are linear in the input,
//     but for sorting.
//  3. Every object name that is given out is 40 or 64 lower-case hex digits and
//     not all zeros, and every ref name is one that git takes ([CheckRef]). What
//     is neither is kept apart as a [Fault], and never reaches git.
//  4. The error of a Parse function is the reason for the client, with a prefix of
//     NIP-01. Reasons of a push have no prefix: git prints them.
//  5. Names of hosts are compared whole, after parsing, never by substring.
//
// Signatures and ids are not checked here. URLs are given out as they were
// written: who connects to one checks where it leads.
package grasp

import (
	"slices"
	"strings"
)

// PubKey is an author's public key.
type PubKey = [32]byte

// ID is an event id.
type ID = [32]byte

// Kinds of NIP-34 and related ones.
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

// Kinds in which authors describe themselves, beside KindGraspList.
const (
	KindProfile   = 0     // NIP-01
	KindFollows   = 3     // NIP-02
	KindRelayList = 10002 // NIP-65
)

// DescribesAuthor reports whether authors describe themselves in events of a kind. Such an event
// belongs to a service if anything else of its author does.
func DescribesAuthor(kind int) bool {
	switch kind {
	case KindProfile, KindFollows, KindRelayList, KindGraspList:
		return true
	}
	return false
}

// NeedsGitData reports whether events of a kind may be held until their git data is here.
func NeedsGitData(kind int) bool {
	switch kind {
	case KindAnnouncement, KindState, KindPullRequest, KindPRUpdate:
		return true
	}
	return false
}

// Stamp orders events: author, time and id.
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

// Event has the fields of a nostr event that the rules read.
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

// all returns all values of all tags with this name, without empty ones.
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

// ParseObject returns the name of a git object in lower case. It returns false for text other than
// 40 or 64 hex digits, and for all zeros, by which git means that there is no object.
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

// IsZero reports whether s is 40 or 64 zeros, git's name for a missing object.
func IsZero(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0") == ""
}

// lowerASCII changes only ASCII letters, since lower case turns some others into ASCII ones.
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

// Root returns the event that e belongs to: the issue, pull request or first patch
// that a comment, a status, an update or a later patch is about. It reports false
// for those that are a root themselves, and for other kinds.
func (e *Event) Root() (ID, bool) {
	switch e.Kind {
	case KindComment, KindPRUpdate: // NIP-22 names the root in E
		return ParseID(e.first("E"))
	case KindOpen, KindApplied, KindClosed, KindDraft:
		return e.marked()
	case KindPatch:
		if e.has("t", "root") {
			return ID{}, false
		}
		return e.marked()
	}
	return ID{}, false
}

// marked returns the e tag that is marked as root (NIP-10), else the first.
func (e *Event) marked() (root ID, ok bool) {
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "e" {
			continue
		}
		id, right := ParseID(tag[1])
		if !right {
			continue
		}
		if len(tag) > 3 && tag[3] == "root" {
			return id, true
		}
		if !ok {
			root, ok = id, true
		}
	}
	return root, ok
}

// Status returns the kind of the status that counts for an issue, a patch or a pull request. That
// is the newest status that names it as root and comes from its author or a maintainer. Without
// one, it returns KindOpen.
func Status(root *Event, statuses []*Event, maintainers []PubKey) int {
	var newest *Event
	for _, s := range statuses {
		if s.Kind < KindOpen || s.Kind > KindDraft || newest != nil && !s.Newer(&newest.Stamp) {
			continue
		}
		if id, ok := s.Root(); !ok || id != root.ID {
			continue
		}
		if s.PubKey == root.PubKey || slices.Contains(maintainers, s.PubKey) {
			newest = s
		}
	}
	if newest == nil {
		return KindOpen
	}
	return newest.Kind
}
