package match

import (
	"slices"

	"talon/host"
)

// Digest is what filters look at in an event.
type Digest struct {
	ID        host.ID
	CreatedAt int64
	author    mark
	kind      host.Kind
	tags      []tagMark // sorted; the first of those with a single letter
}

type tagMark struct {
	name  byte
	value mark
}

func (a tagMark) compare(b tagMark) int {
	if a.name != b.name {
		return int(a.name) - int(b.name)
	}
	switch {
	case a.value < b.value:
		return -1
	case a.value > b.value:
		return 1
	}
	return 0
}

// Digest returns the digest of an event.
func (h Hash) Digest(e *host.Event) Digest {
	d := Digest{ID: e.ID, CreatedAt: e.CreatedAt, author: sum(h, e.PubKey[:]), kind: e.Kind}
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 {
			d.tags = append(d.tags, tagMark{tag[0][0], sum(h, tag[1])})
		}
	}
	slices.SortFunc(d.tags, tagMark.compare)
	d.tags = slices.Compact(d.tags)
	return d
}

// Matcher is a filter as hashes of its values. A nil list is no condition.
type Matcher struct {
	ids          []host.ID // sorted
	authors      []mark    // sorted
	kinds        []host.Kind
	tags         []tagMatcher
	since, until *int64
}

// tagMatcher is a condition on the values of a tag, or of any of some tags.
type tagMatcher struct {
	names  [maxNames]byte
	count  uint8  // of them
	values []mark // sorted
}

const maxNames = 7

// Matchers returns matchers of filters. An event matches one of the filters if it
// matches one of the matchers: filters for e, E and q tags of the same events have one
// together.
func (h Hash) Matchers(filters []host.Filter) []Matcher {
	list := make([]Matcher, 0, len(filters))
	for i := range filters {
		f := &filters[i]
		m := Matcher{kinds: f.Kinds, since: f.Since, until: f.Until}
		if f.IDs != nil {
			m.ids = slices.Clone(f.IDs)
			slices.SortFunc(m.ids, compareIDs)
		}
		if f.Authors != nil {
			m.authors = make([]mark, len(f.Authors))
			for j := range f.Authors {
				m.authors[j] = sum(h, f.Authors[j][:])
			}
			slices.Sort(m.authors)
		}
		for _, t := range f.Tags {
			values := make([]mark, len(t.Values))
			for j, v := range t.Values {
				values[j] = sum(h, v)
			}
			slices.Sort(values)
			m.tags = append(m.tags, tagMatcher{names: [maxNames]byte{t.Name}, count: 1, values: values})
		}
		if n := len(list); n == 0 || !list[n-1].join(&m) {
			list = append(list, m)
		}
	}
	if len(list) < len(filters) {
		list = slices.Clone(list)
	}
	return list
}

// join takes in a Matcher that differs in the name of its tag only, and reports whether
// it is one.
func (m *Matcher) join(o *Matcher) bool {
	switch {
	case len(m.tags) != 1 || len(o.tags) != 1 || m.tags[0].count == maxNames:
		return false
	case m.ids != nil || o.ids != nil || m.authors != nil || o.authors != nil:
		return false
	case (m.kinds == nil) != (o.kinds == nil) || !slices.Equal(m.kinds, o.kinds) || !slices.Equal(m.tags[0].values, o.tags[0].values):
		return false
	case !sameTime(m.since, o.since) || !sameTime(m.until, o.until):
		return false
	}
	t := &m.tags[0]
	t.names[t.count] = o.tags[0].names[0]
	t.count++
	return true
}

func sameTime(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }

func compareIDs(a, b host.ID) int { return slices.Compare(a[:], b[:]) }

// Matches reports whether an event matches.
func (m *Matcher) Matches(d *Digest) bool {
	if m.since != nil && d.CreatedAt < *m.since || m.until != nil && d.CreatedAt > *m.until {
		return false
	}
	if m.kinds != nil && !slices.Contains(m.kinds, d.kind) {
		return false
	}
	if m.authors != nil && !has(m.authors, d.author) {
		return false
	}
	if m.ids != nil {
		if _, ok := slices.BinarySearchFunc(m.ids, d.ID, compareIDs); !ok {
			return false
		}
	}
	for i := range m.tags {
		if !m.tags[i].matches(d) {
			return false
		}
	}
	return true
}

func (t *tagMatcher) matches(d *Digest) bool {
	for _, name := range t.names[:t.count] {
		at, _ := slices.BinarySearchFunc(d.tags, tagMark{name: name}, tagMark.compare)
		for _, tag := range d.tags[at:] {
			if tag.name != name {
				break
			}
			if has(t.values, tag.value) {
				return true
			}
		}
	}
	return false
}

func has(list []mark, v mark) bool {
	_, ok := slices.BinarySearch(list, v)
	return ok
}

// Any reports whether an event matches one of the matchers.
func Any(list []Matcher, d *Digest) bool {
	for i := range list {
		if list[i].Matches(d) {
			return true
		}
	}
	return false
}
