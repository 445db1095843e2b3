package holdings

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"talon/host"
)

// prefix is the part of an id that is kept. Of a million events here and 50,000 that a relay
// holds, two have the same one in 5,000 relays. It would cost some bytes.
type prefix [prefixBytes]byte

const prefixBytes = 6

// Bounds of the parts of a set beside its events.
const (
	maxFilters = 512  // that are known as compared; above it the oldest is forgotten
	minPending = 1024 // changes that are gathered before they are merged
)

// Set is what one relay is believed to hold. It begins to remember with [Set.Keep]: until
// then nobody asks.
type Set struct {
	limit   int                  // events
	kept    bool                 // somebody asks
	changed bool                 // since TakeChanged
	merged  []byte               // prefixes, ascending; views share it: it is replaced, never written
	pending map[prefix]bool      // changes since it was made: true is here, false is gone
	filters []fingerprint        // compared to their end, the oldest first
	known   map[fingerprint]bool // of filters
}

// New returns the set of a relay of which nothing is known, for so many events at most.
func New(limit int) *Set {
	return &Set{limit: limit, pending: make(map[prefix]bool), known: make(map[fingerprint]bool)}
}

// Keep begins to remember.
func (s *Set) Keep() { s.kept = true }

// Kept reports whether the set remembers.
func (s *Set) Kept() bool { return s.kept }

// Add notes events that the relay has. A set that is full begins again with nothing: what
// the relay holds is found by the next comparison, and what is here no more is not.
func (s *Set) Add(ids ...host.ID) {
	if !s.kept {
		return
	}
	for i := range ids {
		s.change(prefix(ids[i][:prefixBytes]), true)
	}
	if s.count() > s.limit {
		s.merge()
		if s.count() > s.limit {
			s.reset()
		}
	}
}

// Remove notes events that the relay has no more.
func (s *Set) Remove(ids ...host.ID) {
	for i := range ids {
		s.change(prefix(ids[i][:prefixBytes]), false)
	}
}

func (s *Set) change(p prefix, there bool) {
	was, ok := s.pending[p]
	if !ok {
		was = View{s.merged}.has(p)
	}
	if was == there {
		return
	}
	s.changed = true
	s.pending[p] = there
	if len(s.pending) >= max(minPending, len(s.merged)/prefixBytes/8) {
		s.merge()
	}
}

// count returns how many events there are, at most.
func (s *Set) count() int { return len(s.merged)/prefixBytes + len(s.pending) }

func (s *Set) reset() {
	s.merged, s.filters = nil, nil
	clear(s.pending)
	clear(s.known)
	s.changed = true
}

// merge makes the sorted list anew, with what has changed.
func (s *Set) merge() {
	if len(s.pending) == 0 {
		return
	}
	list := make([]prefix, 0, len(s.pending))
	for p := range s.pending {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b prefix) int { return bytes.Compare(a[:], b[:]) })
	old := s.merged
	all := make([]byte, 0, len(old)+len(list)*prefixBytes)
	for _, p := range list {
		at := View{old}.find(p)
		all = append(all, old[:at]...)
		if old = old[at:]; len(old) > 0 && prefix(old[:prefixBytes]) == p {
			old = old[prefixBytes:]
		}
		if s.pending[p] {
			all = append(all, p[:]...)
		}
	}
	s.merged = append(all, old...)
	clear(s.pending)
}

// Len returns how many events the relay is believed to hold.
func (s *Set) Len() int {
	s.merge()
	return len(s.merged) / prefixBytes
}

// Bytes returns the memory of the events, about.
func (s *Set) Bytes() int { return cap(s.merged) + 16*len(s.pending) }

// View returns what the set holds now. Later changes do not reach it.
func (s *Set) View() View {
	s.merge()
	return View{s.merged}
}

// View is a set as it was at some time. Any goroutine may read it.
type View struct{ list []byte }

// Has reports whether the relay is believed to hold an event.
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

// Compared notes that what the relay has for a filter is known: a comparison has come to its
// end.
func (s *Set) Compared(f *host.Filter) {
	if f.Since != nil || f.Until != nil || f.Limit >= 0 || !s.kept {
		return
	}
	print := fingerprintOf(f)
	if s.known[print] {
		return
	}
	if len(s.filters) >= maxFilters {
		delete(s.known, s.filters[0])
		s.filters = slices.Delete(s.filters, 0, 1)
	}
	s.filters = append(s.filters, print)
	s.known[print] = true
	s.changed = true
}

// Knows reports whether what the set holds is the better offer for a filter: it was compared
// to its end, with any since or until. For one that names no tags, authors or ids it is
// enough that any was: whoever asks for so much has compared what is wanted before.
func (s *Set) Knows(f *host.Filter) bool {
	if f.Tags == nil && f.Authors == nil && f.IDs == nil {
		return len(s.filters) > 0
	}
	return s.known[fingerprintOf(f)]
}

// sortedCopy returns the values in an order that does not depend on theirs, each once.
func sortedCopy[T any](list []T, compare func(a, b T) int) []T {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	return slices.CompactFunc(list, func(a, b T) bool { return compare(a, b) == 0 })
}

func compareKinds(a, b host.Kind) int { return cmp.Compare(a, b) }
