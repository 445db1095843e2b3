package host

import "slices"

// Filter selects events (NIP-01). A nil list is no condition; an empty one
// matches nothing.
type Filter struct {
	IDs     []ID
	Authors []PubKey
	Kinds   []Kind
	Tags    []TagFilter // each name once
	Since   *int64      // inclusive
	Until   *int64      // inclusive

	// Limit bounds the stored answer, not what is live. It is -1 where the
	// filter gives none.
	Limit int
}

// TagFilter asks for a tag whose name is the single letter Name and whose value
// is one of Values.
type TagFilter struct {
	Name   byte
	Values []string
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
	for i := range f.Tags {
		if !f.Tags[i].matches(e) {
			return false
		}
	}
	return true
}

func (t *TagFilter) matches(e *Event) bool {
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && tag[0][0] == t.Name && slices.Contains(t.Values, tag[1]) {
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
