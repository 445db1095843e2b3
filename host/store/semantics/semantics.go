// Package semantics has what all engines of the store share: reasons, bounds, the due
// times of purgatory, and the index values of an event.
//
// It does no I/O and knows no database.
package semantics

import (
	"bytes"
	"cmp"
	"errors"
	"slices"

	"talon/host"
	"talon/host/purgatory"
)

// Reasons why an event is not stored or held, as clients see them.
const (
	ReasonHave    = "duplicate: already have this event"
	ReasonNewer   = "replaced: have newer event"
	ReasonDeleted = "blocked: deleted by its author"
	ReasonExpired = "invalid: event has expired"
	ReasonGone    = "blocked: this announcement waited for its git data in vain: its author may send it again"
	ReasonFull    = "rate-limited: too many events wait for their git data here: try again later"

	// ReasonOwnFull has a format verb for the number of held events of the author.
	ReasonOwnFull = "restricted: %d events of yours wait for their git data: push it, or delete those that you do not need"
)

var (
	// ErrEphemeral says that a store was given an event that is not to be kept.
	ErrEphemeral = errors.New("ephemeral events are not stored")

	// ErrReadOnly says that the store was opened for reading.
	ErrReadOnly = errors.New("store is read-only")

	// ErrClosed says that the store has been closed.
	ErrClosed = errors.New("store is closed")

	// ErrInUse says that another process serves or changes the same database.
	ErrInUse = errors.New("database is in use")

	// ErrNewer says that a newer Talon wrote the database.
	ErrNewer = errors.New("database is from a newer version of Talon")

	// ErrTooManyPlaceholders says that there is no room for another placeholder.
	ErrTooManyPlaceholders = errors.New("too many refs wait for their events")
)

// Bounds of single things.
const (
	MaxEvicted         = 100     // held events that give way to one
	MaxPlaceholderRepo = 8 << 10 // bytes of a repository's key
)

// Total has the totals of a database.
type Total struct {
	Seq    int64 // the highest ever given
	Events int64
	Bytes  int64 // of their JSON

	Held      int64 // events in purgatory
	HeldBytes int64 // of their JSON
}

// HeldLimits bound purgatory, which anybody may fill whose events a policy holds.
type HeldLimits struct {
	Events   int64 // in all; default 20,000
	ByAuthor int64 // by one author; default 200
	Bytes    int64 // of their JSON, in all; default 64 MiB

	Placeholders int64 // refs that were pushed before their events; default 100,000
}

// SetDefaults fills in the limits that are not given.
func (l *HeldLimits) SetDefaults() {
	for _, v := range []struct {
		limit *int64
		value int64
	}{{&l.Events, 20_000}, {&l.ByAuthor, 200}, {&l.Bytes, 64 << 20}, {&l.Placeholders, 100_000}} {
		if *v.limit == 0 {
			*v.limit = v.value
		}
	}
}

// Due returns when a held event is due for the next sweep.
func Due(e *host.Event, since int64, dormant bool) int64 {
	h := purgatory.Hold{Announcement: e.Kind == host.KindAnnouncement, Since: since}
	at, _ := h.Next(since)
	if dormant {
		at, _ = h.Next(at)
	}
	if expires, ok := e.Expiration(); ok {
		at = min(at, expires)
	}
	return at
}

// InOrderOfRelease returns the ids of held events, each once, by time, and within a second the
// highest first: the version that stays comes last. createdAt returns 0 for an event that is
// not there.
func InOrderOfRelease(ids []host.ID, createdAt func(host.ID) (int64, error)) ([]host.ID, error) {
	at := make(map[host.ID]int64, len(ids))
	list := make([]host.ID, 0, len(ids))
	for _, id := range ids {
		if _, ok := at[id]; ok {
			continue
		}
		time, err := createdAt(id)
		if err != nil {
			return nil, err
		}
		at[id], list = time, append(list, id)
	}
	slices.SortFunc(list, func(a, b host.ID) int { return cmp.Or(cmp.Compare(at[a], at[b]), bytes.Compare(b[:], a[:])) })
	return list, nil
}

// Tags calls yield for each tag under which an event is found, once: the first value of
// each single-letter tag (NIP-01).
func Tags(e *host.Event, yield func(name byte, value string)) {
	var seen tagSet
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && letter(tag[0][0]) && seen.add(tag[0][0], tag[1]) {
			yield(tag[0][0], tag[1])
		}
	}
}

// Maintained calls yield for each value of [host.MaintainerOf] under which a repository
// announcement is found.
func Maintained(e *host.Event, yield func(value string)) {
	maintainers := e.Maintainers()
	if len(maintainers) == 0 {
		return
	}
	identifier := e.D()
	for _, m := range maintainers {
		yield(host.Maintains(m, identifier))
	}
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// tagSet holds tags, most often few.
type tagSet struct {
	n    int
	few  [8]indexedTag
	many map[indexedTag]struct{} // nil while few will do
}

type indexedTag struct {
	name  byte
	value string
}

// add reports whether the tag was not in the set.
func (s *tagSet) add(name byte, value string) bool {
	t := indexedTag{name, value}
	if s.many == nil {
		for _, have := range s.few[:s.n] {
			if have == t {
				return false
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = t
			s.n++
			return true
		}
		s.many = make(map[indexedTag]struct{})
		for _, have := range s.few {
			s.many[have] = struct{}{}
		}
	}
	if _, ok := s.many[t]; ok {
		return false
	}
	s.many[t] = struct{}{}
	return true
}
