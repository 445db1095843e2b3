package relaysync

import (
	"hash/maphash"
	"slices"

	"talon/host"
)

// Filters are kept as hashes: of 100 relays with 70 subscriptions of 100 values each
// the texts alone would be 50 MB. That something else has the same hash is as likely as
// once in 40 million events, and nobody can know the seed.

type mark uint32

var markSeed = maphash.MakeSeed()

func markOf(s string) mark { return mark(maphash.String(markSeed, s)) }

func markOfKey(b []byte) mark { return mark(maphash.Bytes(markSeed, b)) }

// digest is what filters look at in an event.
type digest struct {
	id        host.ID
	author    mark
	createdAt int64
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

func digestOf(e *host.Event) digest {
	d := digest{id: e.ID, author: markOfKey(e.PubKey[:]), createdAt: e.CreatedAt, kind: e.Kind}
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 {
			d.tags = append(d.tags, tagMark{tag[0][0], markOf(tag[1])})
		}
	}
	slices.SortFunc(d.tags, tagMark.compare)
	d.tags = slices.Compact(d.tags)
	return d
}

// matcher is a filter. A nil list is no condition.
type matcher struct {
	ids          []host.ID // sorted
	authors      []mark    // sorted
	kinds        []host.Kind
	tags         []tagMatcher
	since, until *int64
}

// tagMatcher is a condition on the values of a tag, or of any of some tags.
type tagMatcher struct {
	names  [mostNames]byte
	count  uint8  // of them
	values []mark // sorted
}

const mostNames = 7

// newMatchers returns matchers of filters. An event matches one of the filters if it
// matches one of the matchers: filters for e, E and q tags of the same events have one
// together.
func newMatchers(filters []host.Filter) []matcher {
	list := make([]matcher, 0, len(filters))
	for i := range filters {
		f := &filters[i]
		m := matcher{kinds: f.Kinds, since: f.Since, until: f.Until}
		if f.IDs != nil {
			m.ids = slices.Clone(f.IDs)
			slices.SortFunc(m.ids, compareIDs)
		}
		if f.Authors != nil {
			m.authors = make([]mark, len(f.Authors))
			for j := range f.Authors {
				m.authors[j] = markOfKey(f.Authors[j][:])
			}
			slices.Sort(m.authors)
		}
		for _, t := range f.Tags {
			values := make([]mark, len(t.Values))
			for j, v := range t.Values {
				values[j] = markOf(v)
			}
			slices.Sort(values)
			m.tags = append(m.tags, tagMatcher{names: [mostNames]byte{t.Name}, count: 1, values: values})
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

// join takes in a matcher that differs in the name of its tag only, and reports whether
// it is one.
func (m *matcher) join(o *matcher) bool {
	switch {
	case len(m.tags) != 1 || len(o.tags) != 1 || m.tags[0].count == mostNames:
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

func (m *matcher) matches(d *digest) bool {
	if m.since != nil && d.createdAt < *m.since || m.until != nil && d.createdAt > *m.until {
		return false
	}
	if m.kinds != nil && !slices.Contains(m.kinds, d.kind) {
		return false
	}
	if m.authors != nil && !has(m.authors, d.author) {
		return false
	}
	if m.ids != nil {
		if _, ok := slices.BinarySearchFunc(m.ids, d.id, compareIDs); !ok {
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

func (t *tagMatcher) matches(d *digest) bool {
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

func anyMatches(list []matcher, d *digest) bool {
	for i := range list {
		if list[i].matches(d) {
			return true
		}
	}
	return false
}
