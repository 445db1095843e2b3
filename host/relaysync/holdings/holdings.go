// Package holdings remembers which events a relay is believed to hold, in six bytes an
// event. So a comparison (NIP-77) can offer this set instead of all local events. If
// nothing is new, both sides are equal, and the comparison costs one message each.
//
// A [Set] is a belief. It holds the first bytes of ids, whatever happened to the events here:
// stored, held, refused or replaced. The caller reads the local events and leaves out those
// that the [View] does not have. So a belief that is wrong, old or lost only costs bytes. A
// comparison adds an event that only the relay has, and removes one that the relay lacks. The
// set never offers an event that is not here. Nothing that a relay says of itself changes
// what is offered to another.
//
// A set also remembers what a comparison showed that the relay lacks. These events are here, and
// to offer them in a comparison by another tag makes the relay list all of its ids around them.
// That part is not encoded: the relay may get them at any time.
//
// A set knows what was compared to its end with its relay: each value of a tag by itself, so
// that a filter of other values, most of which were compared, is known too. For any other the
// belief may lack what the relay has held all along, and everything here is the better offer.
//
// A set has no clock, lock or I/O: one goroutine owns it. A view may go to another.
package holdings

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sort"

	"talon/host"
)

// prefix is the part of an id that is kept. Of a million events here and 50,000 that a relay
// holds, two have the same one in 5,000 relays. It would cost some bytes.
type prefix [prefixBytes]byte

const prefixBytes = 6

// Bounds of the other parts of a set. The caller of [New] bounds its events.
const (
	maxConditions = 1 << 17 // that are known as compared; above it all are forgotten
	minPending    = 1024    // changes that are gathered before they are merged
)

// Set has the events that one relay is believed to hold, and those that it is believed to lack. It
// records events after [Set.Keep]: before, nobody asks.
type Set struct {
	limit    int  // events of each kind
	kept     bool // somebody asks
	changed  bool // since TakeChanged
	held     prefixes
	lacked   prefixes
	compared []condition // to their end, ascending
}

// New returns an empty set for at most the given number of events.
func New(limit int) *Set {
	return &Set{limit: limit, held: newPrefixes(), lacked: newPrefixes()}
}

// Keep begins to record events, unless there is no room for a single event.
func (s *Set) Keep() { s.kept = s.limit > 0 }

// Kept reports whether the set records events.
func (s *Set) Kept() bool { return s.kept }

// Add adds events that the relay has. A full set starts again empty. The next comparison
// finds the events of the relay that are still here.
func (s *Set) Add(ids ...host.ID) {
	if !s.kept {
		return
	}
	for i := range ids {
		p := prefix(ids[i][:prefixBytes])
		s.changed = s.held.change(p, true) || s.changed
		s.lacked.change(p, false)
	}
	if s.held.exceed(s.limit) {
		s.held, s.compared = newPrefixes(), nil
		s.changed = true
	}
}

// Remove removes events that the relay lacks.
func (s *Set) Remove(ids ...host.ID) {
	for i := range ids {
		p := prefix(ids[i][:prefixBytes])
		s.changed = s.held.change(p, false) || s.changed
		if s.kept {
			s.lacked.change(p, true)
		}
	}
	if s.lacked.exceed(s.limit) {
		s.lacked = newPrefixes()
	}
}

// prefixes is a set of them.
type prefixes struct {
	merged  []byte          // ascending; views share it: it is replaced, never written
	pending map[prefix]bool // changes since it was made: true is here, false is gone
}

func newPrefixes() prefixes { return prefixes{pending: make(map[prefix]bool)} }

// change puts a prefix in or takes it out, and reports whether that changed anything.
func (l *prefixes) change(p prefix, there bool) bool {
	was, ok := l.pending[p]
	if !ok {
		was = View{l.merged}.has(p)
	}
	if was == there {
		return false
	}
	l.pending[p] = there
	if len(l.pending) >= max(minPending, len(l.merged)/prefixBytes/8) {
		l.merge()
	}
	return true
}

// exceed reports whether there are more than a number of prefixes.
func (l *prefixes) exceed(limit int) bool {
	if len(l.merged)/prefixBytes+len(l.pending) <= limit {
		return false
	}
	l.merge()
	return len(l.merged)/prefixBytes > limit
}

// merge updates the sorted list with what has changed.
func (l *prefixes) merge() {
	if len(l.pending) == 0 {
		return
	}
	list := make([]prefix, 0, len(l.pending))
	for p := range l.pending {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b prefix) int { return bytes.Compare(a[:], b[:]) })
	old := l.merged
	all := make([]byte, 0, len(old)+len(list)*prefixBytes)
	for _, p := range list {
		at := View{old}.find(p)
		all = append(all, old[:at]...)
		if old = old[at:]; len(old) > 0 && prefix(old[:prefixBytes]) == p {
			old = old[prefixBytes:]
		}
		if l.pending[p] {
			all = append(all, p[:]...)
		}
	}
	l.merged = append(all, old...)
	clear(l.pending)
}

// view returns a snapshot.
func (l *prefixes) view() View {
	l.merge()
	return View{l.merged}
}

// Len returns how many events the relay is believed to hold.
func (s *Set) Len() int { return len(s.held.view().list) / prefixBytes }

// Bytes returns the memory of the events, about.
func (s *Set) Bytes() int {
	return cap(s.held.merged) + cap(s.lacked.merged) + 16*(len(s.held.pending)+len(s.lacked.pending))
}

// View returns a snapshot of the events that the relay is believed to hold.
func (s *Set) View() View { return s.held.view() }

// Lacked returns a snapshot of the events that a comparison showed that the relay lacks.
func (s *Set) Lacked() View { return s.lacked.view() }

// View is a snapshot of events of a set. Any goroutine may read it.
type View struct{ list []byte }

// Has reports whether an event is one of them.
func (v View) Has(id host.ID) bool { return v.has(prefix(id[:prefixBytes])) }

func (v View) has(p prefix) bool {
	at := v.find(p)
	return at < len(v.list) && prefix(v.list[at:at+prefixBytes]) == p
}

// find returns where a prefix is, or would be.
func (v View) find(p prefix) (at int) {
	return prefixBytes * sort.Search(len(v.list)/prefixBytes, func(i int) bool {
		return bytes.Compare(v.list[i*prefixBytes:(i+1)*prefixBytes], p[:]) >= 0
	})
}

// Compared records that a comparison of a filter has completed.
func (s *Set) Compared(f *host.Filter) {
	if f.Since != nil || f.Until != nil || f.Limit >= 0 || !s.kept {
		return
	}
	list := conditionsOf(f)
	if s.knownOf(list) == len(list) {
		return
	}
	if len(s.compared)+len(list) > maxConditions {
		s.compared = nil
	}
	s.compared = append(s.compared, list...)
	slices.Sort(s.compared)
	s.compared = slices.Clip(slices.Compact(s.compared))
	s.changed = true
}

// Knows reports whether to compare a filter with the set: most of it was compared to its end,
// with any since or until. For a filter without conditions, any earlier comparison is enough:
// the caller of a filter that wide has already compared the wanted events.
func (s *Set) Knows(f *host.Filter) bool {
	if f.Tags == nil && f.Authors == nil && f.IDs == nil && f.Kinds == nil {
		return len(s.compared) > 0
	}
	list := conditionsOf(f)
	return 4*s.knownOf(list) >= 3*len(list) && len(list) > 0
}

// knownOf returns how many of the conditions were compared.
func (s *Set) knownOf(list []condition) (n int) {
	for _, c := range list {
		if _, ok := slices.BinarySearch(s.compared, c); ok {
			n++
		}
	}
	return n
}

// version begins an encoded set. The number of conditions, the conditions and the prefixes
// follow, both ascending.
const version = 2

const conditionBytes = 4

// Encode encodes the set for [Decode].
func (s *Set) Encode() []byte {
	held := s.held.view().list
	b := make([]byte, 0, 5+len(s.compared)*conditionBytes+len(held))
	b = append(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.compared)))
	for _, c := range s.compared {
		b = binary.BigEndian.AppendUint32(b, uint32(c))
	}
	return append(b, held...)
}

// Decode returns the encoded set, or an empty one if it cannot be read or is larger than
// the limit.
func Decode(b []byte, limit int) *Set {
	s := New(limit)
	if len(b) < 5 || b[0] != version {
		return s
	}
	conditions := int64(binary.BigEndian.Uint32(b[1:]))
	list := b[5:]
	if conditions > maxConditions || int64(len(list)) < conditions*conditionBytes {
		return s
	}
	rest := list[conditions*conditionBytes:]
	if len(rest)%prefixBytes != 0 || len(rest)/prefixBytes > limit || !ascending(rest) {
		return s
	}
	compared := make([]condition, conditions)
	for i := range compared {
		compared[i] = condition(binary.BigEndian.Uint32(list[i*conditionBytes:]))
		if i > 0 && compared[i-1] >= compared[i] {
			return s
		}
	}
	s.kept, s.held.merged, s.compared = true, bytes.Clone(rest), compared
	return s
}

func ascending(list []byte) bool {
	for at := prefixBytes; at < len(list); at += prefixBytes {
		if bytes.Compare(list[at-prefixBytes:at], list[at:at+prefixBytes]) >= 0 {
			return false
		}
	}
	return true
}

// TakeChanged reports whether the set has changed since the last call.
func (s *Set) TakeChanged() bool {
	changed := s.changed && s.kept
	s.changed = false
	return changed
}

// condition identifies the conditions of a filter, without since, until and limit. If the
// filter has one tag, each value of the tag is a condition, else the filter is one. A
// collision costs bytes.
type condition uint32

// conditionsOf returns what a filter asks for, in an order that does not depend on that of
// its values.
func conditionsOf(filter *host.Filter) []condition {
	f := filter.Canonical()
	var b []byte
	begin := func(what byte, n int) {
		b = append(b, what)
		b = binary.AppendUvarint(b, uint64(n))
	}
	value := func(v string) {
		b = binary.AppendUvarint(b, uint64(len(v)))
		b = append(b, v...)
	}
	if f.IDs != nil {
		begin('i', len(f.IDs))
		for _, id := range f.IDs {
			b = append(b, id[:]...)
		}
	}
	if f.Authors != nil {
		begin('a', len(f.Authors))
		for _, key := range f.Authors {
			b = append(b, key[:]...)
		}
	}
	if f.Kinds != nil {
		begin('k', len(f.Kinds))
		for _, kind := range f.Kinds {
			b = binary.BigEndian.AppendUint16(b, uint16(kind))
		}
	}
	if len(f.Tags) == 1 {
		b = append(b, 't', f.Tags[0].Name)
		common := len(b)
		list := make([]condition, 0, len(f.Tags[0].Values))
		for _, v := range f.Tags[0].Values {
			b = append(b[:common], v...)
			list = append(list, conditionOf(b))
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	for _, t := range f.Tags {
		begin('t', len(t.Values))
		b = append(b, t.Name)
		for _, v := range t.Values {
			value(v)
		}
	}
	return []condition{conditionOf(b)}
}

func conditionOf(b []byte) condition {
	sum := sha256.Sum256(b)
	return condition(binary.BigEndian.Uint32(sum[:]))
}
