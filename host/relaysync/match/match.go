// Package match matches events with large numbers of filters: it keeps 32 bits of each
// value in place of its text. Of 100 relays with 70 subscriptions of 100 values each the
// texts alone would be 50 MB.
//
// Two values have the same hash about once in 40 million events. Only the owner of the key
// of the [Hash] can construct such values.
package match

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"

	"talon/host"
	"talon/sdk/grasp"
)

// Digest has the hashes of an event's values that filters match.
type Digest struct {
	ID        host.ID
	CreatedAt int64
	author    symbol
	kind      host.Kind
	tags      []tagMark // sorted; the first of those with a single letter
}

type tagMark struct {
	name  byte
	value symbol
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
	authors      []symbol  // sorted
	kinds        []host.Kind
	tags         []tagMatcher
	since, until *int64
}

// tagMatcher is a condition on the values of a tag, or of any of some tags.
type tagMatcher struct {
	names  [maxNames]byte
	count  uint8    // of them
	values []symbol // sorted
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
			m.authors = make([]symbol, len(f.Authors))
			for j := range f.Authors {
				m.authors[j] = sum(h, f.Authors[j][:])
			}
			slices.Sort(m.authors)
		}
		for _, t := range f.Tags {
			values := make([]symbol, len(t.Values))
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
func (m *Matcher) Matches(d *Digest) bool { return m.match(d, (*tagMatcher).matches) }

// MatchesByValues reports whether an event matches if the letters of tags are ignored: an
// event with ["a","x"] then matches {"#A":["x"]}. The index of khatru's badger finds events
// that way.
func (m *Matcher) MatchesByValues(d *Digest) bool { return m.match(d, (*tagMatcher).matchesValue) }

// MatchesByOtherLetter reports whether an event matches by values, and under no letter of
// the filter, in either case. An honest relay sends it only if it ignores all letters.
func (m *Matcher) MatchesByOtherLetter(d *Digest) bool {
	return m.MatchesByValues(d) && !m.match(d, (*tagMatcher).matchesFolded)
}

func (m *Matcher) match(d *Digest, tag func(*tagMatcher, *Digest) bool) bool {
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
		if !tag(&m.tags[i], d) {
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

func (t *tagMatcher) matchesValue(d *Digest) bool {
	return slices.ContainsFunc(d.tags, func(tag tagMark) bool { return has(t.values, tag.value) })
}

func (t *tagMatcher) matchesFolded(d *Digest) bool {
	const upper = 'a' - 'A'
	return slices.ContainsFunc(d.tags, func(tag tagMark) bool {
		return slices.ContainsFunc(t.names[:t.count], func(name byte) bool { return name|upper == tag.name|upper }) && has(t.values, tag.value)
	})
}

func has(list []symbol, v symbol) bool {
	_, ok := slices.BinarySearch(list, v)
	return ok
}

// Any reports whether an event matches at least one of the matchers.
func Any(list []Matcher, d *Digest) bool {
	for i := range list {
		if list[i].Matches(d) {
			return true
		}
	}
	return false
}

// AnyByValues reports whether an event matches at least one of the matchers if the letters
// of tags are ignored.
func AnyByValues(list []Matcher, d *Digest) bool {
	for i := range list {
		if list[i].MatchesByValues(d) {
			return true
		}
	}
	return false
}

// Hash makes the marks of texts: SipHash-1-3 under a key. All digests and matchers that
// meet must come from one Hash.
type Hash struct{ k0, k1 uint64 }

// NewHash returns the hash of a key. The key must be random where strangers choose the
// texts.
func NewHash(k0, k1 uint64) Hash { return Hash{k0, k1} }

// symbol is the hash of a text.
type symbol uint32

func sum[T string | []byte](h Hash, b T) symbol {
	v0, v1 := h.k0^0x736f6d6570736575, h.k1^0x646f72616e646f6d
	v2, v3 := h.k0^0x6c7967656e657261, h.k1^0x7465646279746573
	round := func() {
		v0 += v1
		v1 = bits.RotateLeft64(v1, 13) ^ v0
		v0 = bits.RotateLeft64(v0, 32)
		v2 += v3
		v3 = bits.RotateLeft64(v3, 16) ^ v2
		v0 += v3
		v3 = bits.RotateLeft64(v3, 21) ^ v0
		v2 += v1
		v1 = bits.RotateLeft64(v1, 17) ^ v2
		v2 = bits.RotateLeft64(v2, 32)
	}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		m := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		v3 ^= m
		round()
		v0 ^= m
	}
	for i := range len(b) {
		last |= uint64(b[i]) << (8 * i)
	}
	v3 ^= last
	round()
	v0 ^= last
	v2 ^= 0xff
	round()
	round()
	round()
	v0 ^= v1 ^ v2 ^ v3
	return symbol(v0 ^ v0>>32)
}

// Append appends the digest as bytes, for [Decode] with the same key.
func (d *Digest) Append(b []byte) []byte {
	b = append(b, d.ID[:]...)
	b = binary.AppendVarint(b, d.CreatedAt)
	b = binary.BigEndian.AppendUint32(b, uint32(d.author))
	b = binary.BigEndian.AppendUint16(b, uint16(d.kind))
	b = binary.AppendUvarint(b, uint64(len(d.tags)))
	for _, t := range d.tags {
		b = append(b, t.name)
		b = binary.BigEndian.AppendUint32(b, uint32(t.value))
	}
	return b
}

// Decode reads a digest and returns what follows it.
func Decode(b []byte) (d Digest, rest []byte, ok bool) {
	if len(b) < len(d.ID) {
		return d, nil, false
	}
	b = b[copy(d.ID[:], b):]
	at, n := binary.Varint(b)
	if n <= 0 || len(b) < n+6 {
		return d, nil, false
	}
	b = b[n:]
	d.CreatedAt, d.author, d.kind = at, symbol(binary.BigEndian.Uint32(b)), host.Kind(binary.BigEndian.Uint16(b[4:]))
	b = b[6:]
	const size = 5
	count, n := binary.Uvarint(b)
	if n <= 0 || count > math.MaxInt32 || len(b)-n < size*int(count) {
		return d, nil, false
	}
	b = b[n:]
	if count > 0 {
		d.tags = make([]tagMark, count)
	}
	for i := range d.tags {
		d.tags[i] = tagMark{b[0], symbol(binary.BigEndian.Uint32(b[1:]))}
		b = b[size:]
	}
	return d, b, slices.IsSortedFunc(d.tags, tagMark.compare)
}

// Tags returns how many tags filters look at.
func (d *Digest) Tags() int { return len(d.tags) }

// Needs returns marks of the needs of a refused event ([host.Event.Needs]). A digest has no text
// of its event's address, so marks are coarser than needs: an address has the mark of its d tag,
// or that of all addresses of its author without one.
func (d *Digest) Needs() (marks []uint32) {
	for _, t := range d.tags {
		if t.name == 'd' || strings.IndexByte(host.ReferenceTags, t.name) >= 0 {
			marks = append(marks, uint32(t.value))
		}
	}
	if class := d.kind.Class(); class == host.Replaceable || class == host.Addressable {
		marks = append(marks, uint32(d.author.withoutD()))
	}
	if grasp.DescribesAuthor(int(d.kind)) {
		marks = append(marks, uint32(d.author))
	}
	return marks
}

// Meets returns marks of the needs that an accepted event meets ([host.Event.Meets]), and the ids
// that it names.
func (h Hash) Meets(e *host.Event) (marks []uint32, ids []host.ID) {
	for need := range e.Meets() {
		var b [32]byte
		a, isAddress := host.ParseAddress(need.Value)
		switch isKey := host.ParseHex(b[:], need.Value); {
		case need.By == host.NeedsAuthor && isKey:
			marks = append(marks, uint32(sum(h, b[:])))
		case need.By != host.NeedsMention:
			marks = append(marks, uint32(sum(h, need.Value)))
		case isKey:
			ids = append(ids, b)
		case isAddress && a.D == "":
			marks = append(marks, uint32(sum(h, a.PubKey[:]).withoutD()))
		case isAddress:
			marks = append(marks, uint32(sum(h, a.D)))
		}
	}
	return marks, ids
}

// withoutD returns the mark of the addresses of an author that have no d tag.
func (author symbol) withoutD() symbol { return ^author }
