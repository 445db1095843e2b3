package relay

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"sync"

	"talon/host"
)

// index finds the filters that an event may match. Each filter is registered under
// the values of its one most selective condition; an event is looked up by its id,
// author, kind and tags. The key of a value is a letter for what it is, and its
// bytes.
type index struct {
	mu      sync.RWMutex // guards all below, and the postings of every watch
	buckets map[string]*bucket
	subs    int

	looked uint64 // belongs to match: counts events
}

// bucket holds the filters that are registered under one key, in no order.
type bucket struct {
	key    string
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

// condition is a part of a filter, and the first byte of its keys.
type condition byte

const (
	byAll    condition = '*'
	byID     condition = 'i'
	byAuthor condition = 'a'
	byKind   condition = 'k'
	byTag    condition = 't'
)

func newIndex() *index { return &index{buckets: make(map[string]*bucket)} }

func idKey(b []byte, id *host.ID) []byte        { return append(append(b, byte(byID)), id[:]...) }
func authorKey(b []byte, p *host.PubKey) []byte { return append(append(b, byte(byAuthor)), p[:]...) }
func kindKey(b []byte, k host.Kind) []byte {
	return binary.BigEndian.AppendUint16(append(b, byte(byKind)), uint16(k))
}
func tagKey(b []byte, name byte, value string) []byte {
	return append(append(b, byte(byTag), name), value...)
}

// add registers the filters of a subscription that can match something, in place
// of the subscription old if that is not nil: no event falls between the two, and
// none meets both.
func (x *index) add(s, old *subscription, filters []host.Filter) {
	s.watches = make([]watch, 0, len(filters))
	for i := range filters {
		if !filters[i].Empty() {
			s.watches = append(s.watches, watch{sub: s, filter: sorted(filters[i])})
		}
	}
	// Keys are made before the lock is taken: publishing waits for it.
	choices := make([][]choice, len(s.watches))
	for i := range s.watches {
		choices[i] = choicesOf(&s.watches[i].filter)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		x.removeLocked(old)
	}
	x.subs++
	for i := range s.watches {
		x.register(&s.watches[i], choices[i])
	}
}

// sorted returns the filter with its own lists, in order, so that long ones can be
// searched. It shares no text with the message that it came in, which may be much
// longer.
func sorted(f host.Filter) host.Filter {
	f.IDs = slices.Clone(f.IDs)
	slices.SortFunc(f.IDs, compareIDs)
	f.Authors = slices.Clone(f.Authors)
	slices.SortFunc(f.Authors, compareAuthors)
	f.Kinds = slices.Clone(f.Kinds)
	slices.Sort(f.Kinds)
	f.Tags = slices.Clone(f.Tags)
	for i := range f.Tags {
		values := slices.Clone(f.Tags[i].Values)
		for j := range values {
			values[j] = strings.Clone(values[j])
		}
		slices.Sort(values)
		f.Tags[i].Values = values
	}
	return f
}

// canonical returns a key that is the same for filters that ask for the same.
func canonical(f *host.Filter) string {
	s := sorted(*f)
	b := []byte{}
	list := func(name byte, given bool, n int) {
		if given {
			b = append(b, name)
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	list('i', s.IDs != nil, len(s.IDs))
	for i := range s.IDs {
		b = append(b, s.IDs[i][:]...)
	}
	list('a', s.Authors != nil, len(s.Authors))
	for i := range s.Authors {
		b = append(b, s.Authors[i][:]...)
	}
	list('k', s.Kinds != nil, len(s.Kinds))
	for _, k := range s.Kinds {
		b = binary.AppendUvarint(b, uint64(k))
	}
	var seen [math.MaxUint8 + 1]*host.TagFilter
	for i := range s.Tags {
		seen[s.Tags[i].Name] = &s.Tags[i]
	}
	for name, t := range seen {
		if t == nil {
			continue
		}
		list('#', true, len(t.Values))
		b = append(b, byte(name))
		for _, v := range t.Values {
			b = binary.AppendUvarint(b, uint64(len(v)))
			b = append(b, v...)
		}
	}
	if s.Since != nil {
		b = binary.AppendUvarint(append(b, 's'), uint64(*s.Since))
	}
	if s.Until != nil {
		b = binary.AppendUvarint(append(b, 'u'), uint64(*s.Until))
	}
	return string(b)
}

func compareIDs(a, b host.ID) int         { return bytes.Compare(a[:], b[:]) }
func compareAuthors(a, b host.PubKey) int { return bytes.Compare(a[:], b[:]) }

// choice is a condition under which a filter can be registered.
type choice struct {
	by   condition
	tag  int
	keys []string
}

// choicesOf returns the conditions that are the most selective by their nature: ids
// if there are any, else authors and tags, else kinds.
func choicesOf(f *host.Filter) []choice {
	switch {
	case f.IDs != nil:
		c := choice{by: byID}
		for i := range f.IDs {
			c.keys = append(c.keys, string(idKey(nil, &f.IDs[i])))
		}
		return []choice{c}
	case f.Authors != nil || len(f.Tags) > 0:
		var list []choice
		if f.Authors != nil {
			c := choice{by: byAuthor}
			for i := range f.Authors {
				c.keys = append(c.keys, string(authorKey(nil, &f.Authors[i])))
			}
			list = append(list, c)
		}
		for i := range f.Tags {
			c := choice{by: byTag, tag: i}
			for _, v := range f.Tags[i].Values {
				c.keys = append(c.keys, string(tagKey(nil, f.Tags[i].Name, v)))
			}
			list = append(list, c)
		}
		return list
	case f.Kinds != nil:
		c := choice{by: byKind}
		for _, k := range f.Kinds {
			c.keys = append(c.keys, string(kindKey(nil, k)))
		}
		return []choice{c}
	}
	return []choice{{by: byAll, keys: []string{string(byte(byAll))}}}
}

// register puts the filter where the fewest values and neighbours are. REQUIRES:
// x.mu.
func (x *index) register(w *watch, choices []choice) {
	best := choices[0]
	if len(choices) > 1 {
		low := x.keyCost(best.keys)
		for _, c := range choices[1:] {
			if n := x.keyCost(c.keys); n < low {
				best, low = c, n
			}
		}
	}
	w.by, w.tag = best.by, best.tag
	w.postings = make([]posting, len(best.keys))
	for i, key := range best.keys {
		b := x.buckets[key]
		if b == nil {
			b = &bucket{key: key}
			x.buckets[key] = b
		}
		p := &w.postings[i]
		*p = posting{watch: w, bucket: b, at: len(b.list)}
		b.list = append(b.list, p)
	}
}

// keyCost weighs keys: how many there are, and how many filters share them.
func (x *index) keyCost(keys []string) int {
	n := len(keys)
	for _, key := range keys {
		if b := x.buckets[key]; b != nil {
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

// REQUIRES: x.mu.
func (x *index) removeLocked(s *subscription) {
	x.subs--
	for i := range s.watches {
		for j := range s.watches[i].postings {
			p := &s.watches[i].postings[j]
			b := p.bucket
			last := len(b.list) - 1
			b.list[p.at] = b.list[last]
			b.list[p.at].at = p.at
			b.list[last] = nil
			if b.list = b.list[:last]; last == 0 {
				delete(x.buckets, b.key)
			}
		}
	}
}

// match calls found once with each filter that has a key in common with the event.
// It returns the scratch memory for keys. Each bucket and each filter is looked at
// once, however often the event's tags and the filter's values meet: otherwise an
// event of a thousand tags could cost a million comparisons.
//
// REQUIRES: x.mu for reading, and one call at a time.
func (x *index) match(e *host.Event, scratch []byte, found func(*watch)) []byte {
	x.looked++
	look := func(key []byte) {
		scratch = key[:0]
		b := x.buckets[string(key)]
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
		return scratch
	}
	scratch = scratch[:0]
	look(append(scratch, byte(byAll)))
	look(idKey(scratch, &e.ID))
	look(authorKey(scratch, &e.PubKey))
	look(kindKey(scratch, e.Kind))
	for _, tag := range e.Tags {
		if len(tag) > 1 && len(tag[0]) == 1 {
			look(tagKey(scratch, tag[0][0], tag[1]))
		}
	}
	return scratch
}

// matches checks the conditions that the key did not decide. It is
// [host.Filter.Matches] for long lists.
func (w *watch) matches(e *host.Event) bool {
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
		if (w.by != byTag || w.tag != i) && !hasTag(&f.Tags[i], e) {
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
