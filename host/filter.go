package host

import (
	"slices"
	"strings"
)

// Filter selects events (NIP-01). A nil list is no condition; an empty one
// matches nothing.
type Filter struct {
	IDs     []ID
	Authors []PubKey
	Kinds   []Kind
	Tags    []TagFilter // each name once, but for WordOf
	Since   *int64      // inclusive
	Until   *int64      // inclusive

	// Limit bounds the stored answer, not the live events. It is -1 if the filter has none.
	Limit int

	// Header says that the id, author, time and kind of each event are enough: an answer
	// may leave the rest empty. Clients cannot set it.
	Header bool

	// Reader is the client that reads: the store leaves out events that it may not receive. Nil is
	// everybody. Clients cannot set it.
	Reader *Reader
}

// TagFilter asks for a tag whose name is the single letter Name and whose value
// is one of Values. Four names are no letters: [AddressOf], [MaintainerOf],
// [WordOf] and [AudienceOf].
type TagFilter struct {
	Name   byte
	Values []string
}

// Names of conditions that are no tags. They are no letters. Clients can use WordOf, by the
// search element of a filter.
const (
	// AddressOf asks for the events at addresses (NIP-01), written kind:pubkey:d. Unlike a
	// condition on the author and the d tag, it selects one version of each at most.
	AddressOf byte = 2

	// MaintainerOf asks for the repository announcements that list a maintainer: see
	// [Maintains].
	MaintainerOf byte = 3

	// WordOf asks for the events that a search finds by a word: see [Search].
	WordOf byte = 5

	// AudienceOf asks for the events whose audience has one of the values: see
	// [Reader.Values]. Stores make such a condition of [Filter.Reader].
	AudienceOf byte = 6
)

// Maintains returns the value of [MaintainerOf] for the announcements of an identifier
// that list a maintainer.
func Maintains(maintainer PubKey, identifier string) string {
	return maintainer.String() + ":" + identifier
}

// Matches reports whether the event satisfies every condition but Limit.
func (f *Filter) Matches(e *Event) bool {
	if f.Since != nil && e.CreatedAt < *f.Since || f.Until != nil && e.CreatedAt > *f.Until {
		return false
	}
	if f.Kinds != nil && !slices.Contains(f.Kinds, e.Kind) {
		return false
	}
	if f.Authors != nil && !slices.Contains(f.Authors, e.PubKey) {
		return false
	}
	if f.IDs != nil && !slices.Contains(f.IDs, e.ID) {
		return false
	}
	var words []string // of the event, once a condition asks for one
	for i := range f.Tags {
		t := &f.Tags[i]
		if t.Name != WordOf {
			if !t.matches(e) {
				return false
			}
			continue
		}
		if words == nil {
			if words = e.Words(); words == nil {
				return false
			}
		}
		if !t.MatchesWord(words) {
			return false
		}
	}
	return true
}

// MatchesWord reports whether one of the words that an event has is a value of the condition.
func (t *TagFilter) MatchesWord(words []string) bool {
	return slices.ContainsFunc(t.Values, func(value string) bool { return slices.Contains(words, value) })
}

func (t *TagFilter) matches(e *Event) bool {
	switch t.Name {
	case AddressOf:
		a, ok := e.Address()
		return ok && slices.Contains(t.Values, a.String())
	case MaintainerOf:
		return t.maintained(e)
	case AudienceOf:
		found := false
		e.Audience.Each(func(value string) { found = found || slices.Contains(t.Values, value) })
		return found
	}
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && tag[0][0] == t.Name && slices.Contains(t.Values, tag[1]) {
			return true
		}
	}
	return false
}

func (t *TagFilter) maintained(e *Event) bool {
	if e.Kind != KindAnnouncement {
		return false
	}
	var listed []PubKey
	for _, value := range t.Values {
		key, identifier, _ := strings.Cut(value, ":")
		var maintainer PubKey
		if identifier != e.D() || !ParseHex(maintainer[:], key) {
			continue
		}
		if listed == nil {
			listed = e.Maintainers()
		}
		if slices.Contains(listed, maintainer) {
			return true
		}
	}
	return false
}

// Empty reports whether a condition of the filter can match nothing.
func (f *Filter) Empty() bool {
	none := f.IDs != nil && len(f.IDs) == 0 ||
		f.Authors != nil && len(f.Authors) == 0 ||
		f.Kinds != nil && len(f.Kinds) == 0 ||
		f.Since != nil && f.Until != nil && *f.Since > *f.Until
	for i := range f.Tags {
		none = none || len(f.Tags[i].Values) == 0
	}
	return none
}
