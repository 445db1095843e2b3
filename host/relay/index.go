package relay

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"

	"talon/host"
)

// index finds the filters that an event may match. Each filter is registered under
// the values of its one most selective condition; an event is looked up by its id,
// author, kind and tags.
type index struct {
	mu      sync.RWMutex // guards all below, and the postings of every watch
	buckets map[key]*bucket
	subs    int

	proven  map[*conn]*provenConn
	readers map[host.PubKey]map[*conn]struct{}

	// These belong to match.
	looked uint64   // counts events
	words  []string // of the event

	searches int // filters that ask for words
}

// bucket holds the filters that are registered under one key, in no order.
type bucket struct {
	list   []*posting
	looked uint64 // belongs to match
}

// posting is the place of a filter in a bucket.
type posting struct {
	watch  *watch
	bucket *bucket
	at     int // in bucket.list
}

// watch is one filter of a subscription.
type watch struct {
	sub      *subscription
	filter   host.Filter
	by       condition // known to hold for an event that was found by key
	tag      int       // of filter.Tags, if by is byTag
	postings []posting
	looked   uint64 // belongs to match
}

// condition is a part of a filter.
type condition byte

const (
	byAll    condition = '*'
	byID     condition = 'i'
	byAuthor condition = 'a'
	byKind   condition = 'k'
	byTag    condition = 't'
)

// key is what one value of a condition is registered under. A tag's value is the text that the
// filter has, so that it is in memory once.
type key struct {
	by    condition
	tag   byte   // name
	value string // of a tag, or the bytes of an id, author or kind
}

func newIndex() *index {
	return &index{
		buckets: make(map[key]*bucket),
		proven:  make(map[*conn]*provenConn), readers: make(map[host.PubKey]map[*conn]struct{}),
	}
}

// count returns how many keys a filter has under a condition.
func (c choice) count(f *host.Filter) int {
	switch c.by {
	case byID:
		return len(f.IDs)
	case byAuthor:
		return len(f.Authors)
	case byTag:
		return len(f.Tags[c.tag].Values)
	case byKind:
		return len(f.Kinds)
	}
	return 1
}

// key returns key i of a filter under a condition.
func (c choice) key(f *host.Filter, i int) key {
	switch c.by {
	case byID:
		return key{by: byID, value: string(f.IDs[i][:])}
	case byAuthor:
		return key{by: byAuthor, value: string(f.Authors[i][:])}
	case byTag:
		return key{by: byTag, tag: f.Tags[c.tag].Name, value: f.Tags[c.tag].Values[i]}
	case byKind:
		var b [2]byte
		binary.BigEndian.PutUint16(b[:], uint16(f.Kinds[i]))
		return key{by: byKind, value: string(b[:])}
	}
	return key{by: byAll}
}

// add registers the filters of a subscription that can match something, in place
// of the subscription old if that is not nil: no event falls between the two, and
// none meets both.
func (x *index) add(s, old *subscription, filters []host.Filter) {
	s.watches = make([]watch, 0, len(filters))
	for i := range filters {
		if !filters[i].Empty() {
			s.watches = append(s.watches, watch{sub: s, filter: filters[i].Canonical()})
		}
	}
	share(s.watches)
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		x.removeLocked(old)
	}
	x.subs++
	if p := x.proven[s.conn]; p != nil {
		p.subs[s] = struct{}{}
	}
	for i := range s.watches {
		x.register(&s.watches[i])
	}
}

// share gives filters that ask for the same values of several tags, one after the other, one
// list of them: so does one that follows root events by e, E and q.
func share(watches []watch) {
	for i := 1; i < len(watches); i++ {
		f, before := &watches[i].filter, &watches[i-1].filter
		if len(f.Tags) == 1 && len(before.Tags) == 1 && slices.Equal(f.Tags[0].Values, before.Tags[0].Values) {
			f.Tags[0].Values = before.Tags[0].Values
		}
	}
}

func compareIDs(a, b host.ID) int         { return bytes.Compare(a[:], b[:]) }
func compareAuthors(a, b host.PubKey) int { return bytes.Compare(a[:], b[:]) }

// choice is a condition under which a filter can be registered.
type choice struct {
	by  condition
	tag int // of filter.Tags, if by is byTag
}

// choicesOf returns the conditions that are the most selective by their nature: ids
// if there are any, else authors and tags, else kinds.
func choicesOf(f *host.Filter) (list []choice) {
	switch {
	case f.IDs != nil:
		return []choice{{by: byID}}
	case f.Authors != nil || len(f.Tags) > 0:
		if f.Authors != nil {
			list = append(list, choice{by: byAuthor})
		}
		for i := range f.Tags {
			list = append(list, choice{by: byTag, tag: i})
		}
		return list
	case f.Kinds != nil:
		return []choice{{by: byKind}}
	}
	return []choice{{by: byAll}}
}

// register puts the filter where the fewest values and neighbours are. REQUIRES:
// x.mu.
func (x *index) register(w *watch) {
	choices := choicesOf(&w.filter)
	best := choices[0]
	if len(choices) > 1 {
		low := x.keyCost(&w.filter, best)
		for _, c := range choices[1:] {
			if n := x.keyCost(&w.filter, c); n < low {
				best, low = c, n
			}
		}
	}
	w.by, w.tag = best.by, best.tag
	x.searches += w.words()
	w.postings = make([]posting, best.count(&w.filter))
	for i := range w.postings {
		k := best.key(&w.filter, i)
		b := x.buckets[k]
		if b == nil {
			b = new(bucket)
			x.buckets[k] = b
		}
		p := &w.postings[i]
		*p = posting{watch: w, bucket: b, at: len(b.list)}
		b.list = append(b.list, p)
	}
}

// keyCost weighs the keys of a filter under a condition: how many there are, and how many
// filters share them.
func (x *index) keyCost(f *host.Filter, c choice) int {
	n := c.count(f)
	for i := range n {
		if b := x.buckets[c.key(f, i)]; b != nil {
			n += len(b.list)
		}
	}
	return n
}

// remove takes a subscription out.
func (x *index) remove(s *subscription) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removeLocked(s)
}

// removeLocked takes a subscription out. REQUIRES: x.mu.
func (x *index) removeLocked(s *subscription) {
	x.subs--
	if p := x.proven[s.conn]; p != nil {
		delete(p.subs, s)
	}
	for i := range s.watches {
		w := &s.watches[i]
		x.searches -= w.words()
		for j := range w.postings {
			p := &w.postings[j]
			b := p.bucket
			last := len(b.list) - 1
			b.list[p.at] = b.list[last]
			b.list[p.at].at = p.at
			b.list[last] = nil
			if b.list = b.list[:last]; last == 0 {
				delete(x.buckets, choice{w.by, w.tag}.key(&w.filter, j))
			}
		}
	}
}

// match calls found once with each filter that has a key in common with the event.
// Each bucket and each filter is looked at once, however often the event's tags and the
// filter's values meet: otherwise an event of a thousand tags could cost a million
// comparisons.
//
// REQUIRES: x.mu for reading, and one call at a time.
func (x *index) match(e *host.Event, found func(*watch)) {
	x.looked++
	x.words = nil
	if x.searches > 0 {
		x.words = e.Words()
	}
	look := func(b *bucket) {
		if b == nil || b.looked == x.looked {
			return
		}
		b.looked = x.looked
		for _, p := range b.list {
			if w := p.watch; w.looked != x.looked {
				w.looked = x.looked
				found(w)
			}
		}
	}
	if len(x.buckets) == 0 {
		return
	}
	var kind [2]byte
	binary.BigEndian.PutUint16(kind[:], uint16(e.Kind))
	look(x.buckets[key{by: byAll}])
	look(x.buckets[key{by: byID, value: string(e.ID[:])}])
	look(x.buckets[key{by: byAuthor, value: string(e.PubKey[:])}])
	look(x.buckets[key{by: byKind, value: string(kind[:])}])
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 {
			look(x.buckets[key{by: byTag, tag: tag[0][0], value: tag[1]}])
		}
	}
	for _, word := range x.words {
		look(x.buckets[key{by: byTag, tag: host.WordOf, value: word}])
	}
}

// words returns how many words the filter asks for.
func (w *watch) words() (n int) {
	for i := range w.filter.Tags {
		if w.filter.Tags[i].Name == host.WordOf {
			n++
		}
	}
	return n
}

// matches checks the conditions that the key did not decide. It is
// [host.Filter.Matches] for long lists. words are those of the event.
func (w *watch) matches(e *host.Event, words []string) bool {
	f := &w.filter
	if f.Since != nil && e.CreatedAt < *f.Since || f.Until != nil && e.CreatedAt > *f.Until {
		return false
	}
	if f.Kinds != nil && w.by != byKind {
		if _, ok := slices.BinarySearch(f.Kinds, e.Kind); !ok {
			return false
		}
	}
	if f.Authors != nil && w.by != byAuthor {
		if _, ok := slices.BinarySearchFunc(f.Authors, e.PubKey, compareAuthors); !ok {
			return false
		}
	}
	if f.IDs != nil && w.by != byID {
		if _, ok := slices.BinarySearchFunc(f.IDs, e.ID, compareIDs); !ok {
			return false
		}
	}
	for i := range f.Tags {
		if t := &f.Tags[i]; w.by == byTag && w.tag == i {
			continue
		} else if t.Name == host.WordOf && !t.MatchesWord(words) || t.Name != host.WordOf && !hasTag(t, e) {
			return false
		}
	}
	return true
}

func hasTag(t *host.TagFilter, e *host.Event) bool {
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 && tag[0][0] == t.Name {
			if _, ok := slices.BinarySearch(t.Values, tag[1]); ok {
				return true
			}
		}
	}
	return false
}
