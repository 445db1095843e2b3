package host

import (
	"cmp"
	"encoding/binary"
	"strconv"

	"talon/sdk/grasp"
)

// Usage is how much of the store an author, a repository or a kind takes.
type Usage struct {
	Events int64
	Bytes  int64 // of the JSON of the events
	Git    int64 // bytes of git data
}

// Total returns the bytes of events and git data.
func (u Usage) Total() int64 { return u.Bytes + u.Git }

// Add adds another usage.
func (u *Usage) Add(v Usage) {
	u.Events += v.Events
	u.Bytes += v.Bytes
	u.Git += v.Git
}

// UsageClass is the class of a count of usage: author, repository or kind. Stores keep the numbers.
type UsageClass uint8

const (
	UsageByAuthor UsageClass = 1 + iota
	UsageByRepository
	UsageByKind
)

// UsageKey names an author, a repository or a kind.
type UsageKey struct {
	Class UsageClass
	Key   string // the public key; the public key and the identifier; the kind in two bytes
}

// maxUsageIdentifier is the longest identifier of a repository that has a folder.
const maxUsageIdentifier = 2 << 10

// UsageOfAuthor returns the key of an author.
func UsageOfAuthor(p PubKey) UsageKey { return UsageKey{UsageByAuthor, string(p[:])} }

// UsageOfKind returns the key of a kind.
func UsageOfKind(k Kind) UsageKey {
	var key [2]byte
	binary.BigEndian.PutUint16(key[:], uint16(k))
	return UsageKey{UsageByKind, string(key[:])}
}

// UsageOfRepository returns the key of the repository of an announcement. It returns false for an
// identifier that no repository can have.
func UsageOfRepository(p PubKey, identifier string) (UsageKey, bool) {
	if identifier == "" || len(identifier) > maxUsageIdentifier {
		return UsageKey{}, false
	}
	return UsageKey{UsageByRepository, string(p[:]) + identifier}, true
}

// UsageOfEvent returns the repository for which an event counts: its own, if it is an announcement
// or a state, else the first one that its a tags name.
func UsageOfEvent(e *Event) (UsageKey, bool) {
	if e.Kind == KindAnnouncement || e.Kind == grasp.KindState {
		return UsageOfRepository(e.PubKey, e.D())
	}
	for _, tag := range e.Tags {
		if len(tag) < 2 || tag[0] != "a" {
			continue
		}
		if a, ok := ParseAddress(tag[1]); ok && a.Kind == KindAnnouncement {
			return UsageOfRepository(a.PubKey, a.D)
		}
	}
	return UsageKey{}, false
}

// PubKey returns the author, or the owner of the repository.
func (k UsageKey) PubKey() (p PubKey) {
	copy(p[:], k.Key)
	return p
}

// Identifier returns the identifier of the repository.
func (k UsageKey) Identifier() string {
	if k.Class != UsageByRepository || len(k.Key) < len(PubKey{}) {
		return ""
	}
	return k.Key[len(PubKey{}):]
}

// Kind returns the kind.
func (k UsageKey) Kind() Kind {
	if len(k.Key) != 2 {
		return 0
	}
	return Kind(binary.BigEndian.Uint16([]byte(k.Key)))
}

// UsageRow is the usage of one author, repository or kind.
type UsageRow struct {
	UsageKey
	Usage
}

// Compare orders rows by their bytes, the largest first.
func (r UsageRow) Compare(other UsageRow) int {
	return cmp.Or(cmp.Compare(other.Total(), r.Total()), cmp.Compare(r.Key, other.Key))
}

// UsageLimits bound the bytes of events and git data of an author, and the git data of a
// repository. 0 is no limit.
type UsageLimits struct{ Author, Repository int64 }

// String returns the key as messages show it.
func (k UsageKey) String() string {
	switch k.Class {
	case UsageByAuthor:
		return "author " + k.PubKey().String()
	case UsageByRepository:
		return "repository " + k.PubKey().String() + "/" + strconv.Quote(k.Identifier())
	}
	return "kind " + strconv.Itoa(int(k.Kind()))
}
