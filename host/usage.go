package host

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
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

// Name returns the author as hex digits, or the address of the announcement of the repository: as
// modules name them. It is empty for a kind.
func (k UsageKey) Name() string {
	switch k.Class {
	case UsageByAuthor:
		return k.PubKey().String()
	case UsageByRepository:
		return Address{Kind: KindAnnouncement, PubKey: k.PubKey(), D: k.Identifier()}.String()
	}
	return ""
}

// ParseUsageName reverses Name.
func ParseUsageName(name string) (UsageKey, bool) {
	var author PubKey
	if ParseHex(author[:], name) {
		return UsageOfAuthor(author), true
	}
	a, ok := ParseAddress(name)
	if !ok || a.Kind != KindAnnouncement {
		return UsageKey{}, false
	}
	return UsageOfRepository(a.PubKey, a.D)
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

// ErrQuota says that git data would exceed the limits of an author or a repository.
var ErrQuota = errors.New("the git data is more than the author or the repository may have")

// UsageLimits bound the bytes of events and git data of an author, and the git data of a
// repository. 0 is no limit.
type UsageLimits struct{ Author, Repository int64 }

// QuotaText says that somebody takes too much: "your events and git data take 99.8 MiB of 100 MiB".
func QuotaText(what string, used, limit int64) string {
	return what + " " + BytesText(used) + " of the " + BytesText(limit) + " that this relay allows"
}

// BytesText writes a number of bytes for people.
func BytesText(n int64) string {
	units := [...]string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return strconv.FormatInt(n, 10) + " bytes"
	}
	return strconv.FormatFloat(math.Trunc(value*10)/10, 'f', -1, 64) + " " + units[unit]
}

// Stricter returns the stricter of each limit.
func (l UsageLimits) Stricter(m UsageLimits) UsageLimits {
	stricter := func(a, b int64) int64 {
		if a == 0 || b > 0 && b < a {
			return b
		}
		return a
	}
	return UsageLimits{stricter(l.Author, m.Author), stricter(l.Repository, m.Repository)}
}

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
