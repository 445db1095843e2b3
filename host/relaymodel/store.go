package relaymodel

import (
	"cmp"
	"slices"

	"talon/host"
)

// Store is the events of one relay, in memory, found by id, tag, author and kind. An
// event in it never changes, so that many stores may share it. One goroutine uses a store
// at a time, to read too.
type Store struct {
	byID    map[host.ID]*entry
	address map[host.Address]*entry
	tag     map[tagValue][]*entry
	author  map[host.PubKey][]*entry
	kind    map[host.Kind][]*entry
	letters []byte // of the tags that came, sorted
	arrived int64
	queries int64
}

// entry is an event with its place in the order of arrival.
type entry struct {
	*host.Event
	arrival int64
	found   int64 // by this query
}

type tagValue struct {
	name  byte
	value string
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		byID: map[host.ID]*entry{}, address: map[host.Address]*entry{}, tag: map[tagValue][]*entry{},
		author: map[host.PubKey][]*entry{}, kind: map[host.Kind][]*entry{},
	}
}

// Len returns the number of events.
func (s *Store) Len() int { return len(s.byID) }

// Get returns an event, nil if it is not here.
func (s *Store) Get(id host.ID) *host.Event {
	if e := s.byID[id]; e != nil {
		return e.Event
	}
	return nil
}

// Newer returns the event that prevents another from being stored: itself, or the newer
// version at its address (NIP-01); nil if there is none.
func (s *Store) Newer(e *host.Event) *host.Event {
	if old := s.byID[e.ID]; old != nil {
		return old.Event
	}
	if a, ok := e.Address(); ok {
		if old := s.address[a]; old != nil && old.Before(e) {
			return old.Event
		}
	}
	return nil
}

// Put stores an event, in place of the older version at its address. It reports false
// where [Store.Newer] has one.
func (s *Store) Put(e *host.Event) bool {
	if s.Newer(e) != nil {
		return false
	}
	s.arrived++
	n := &entry{Event: e, arrival: s.arrived}
	if a, ok := e.Address(); ok {
		if old := s.address[a]; old != nil {
			s.Delete(old.ID)
		}
		s.address[a] = n
	}
	s.byID[e.ID] = n
	s.kind[e.Kind] = append(s.kind[e.Kind], n)
	s.author[e.PubKey] = append(s.author[e.PubKey], n)
	for t := range tagsOf(e) {
		s.tag[t] = append(s.tag[t], n)
		if at, ok := slices.BinarySearch(s.letters, t.name); !ok {
			s.letters = slices.Insert(s.letters, at, t.name)
		}
	}
	return true
}

// Delete removes an event, if it is here.
func (s *Store) Delete(id host.ID) {
	e := s.byID[id]
	if e == nil {
		return
	}
	without := func(list []*entry) []*entry {
		return slices.DeleteFunc(list, func(o *entry) bool { return o == e })
	}
	delete(s.byID, id)
	if a, ok := e.Address(); ok && s.address[a] == e {
		delete(s.address, a)
	}
	s.kind[e.Kind] = without(s.kind[e.Kind])
	s.author[e.PubKey] = without(s.author[e.PubKey])
	for t := range tagsOf(e.Event) {
		s.tag[t] = without(s.tag[t])
	}
}

// At returns the event at an address, nil if there is none.
func (s *Store) At(a host.Address) *host.Event {
	if e := s.address[a]; e != nil {
		return e.Event
	}
	return nil
}

// Query returns the events that match, the newest first, events of one second by
// their ids; at most the filter's limit.
func (s *Store) Query(f *host.Filter) []*host.Event { return s.query(f, false) }

func (s *Store) query(f *host.Filter, anyLetter bool) []*host.Event {
	list := s.matching(f, anyLetter)
	slices.SortFunc(list, newestFirst)
	if f.Limit >= 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return events(list)
}

func events(list []*entry) []*host.Event {
	out := make([]*host.Event, len(list))
	for i, e := range list {
		out[i] = e.Event
	}
	return out
}

// matching returns all entries that match, each once, in no useful order but always
// the same. With anyLetter the condition on a tag that the index answers is one on values:
// the letter of the tag is ignored, as in eventstore's badger.
func (s *Store) matching(f *host.Filter, anyLetter bool) (list []*entry) {
	if f.Empty() {
		return nil
	}
	s.queries++
	rest := *f // conditions that are still to be looked at
	add := func(from []*entry) {
		for _, e := range from {
			if e.found != s.queries && rest.Matches(e.Event) {
				e.found = s.queries
				list = append(list, e)
			}
		}
	}
	switch {
	case f.IDs != nil:
		for _, id := range f.IDs {
			if e := s.byID[id]; e != nil {
				add([]*entry{e})
			}
		}
	case slices.ContainsFunc(f.Tags, isLetter): // each of them must match, so one is enough
		i := slices.IndexFunc(f.Tags, isLetter)
		t := f.Tags[i]
		rest.Tags = slices.Concat(f.Tags[:i], f.Tags[i+1:])
		letters := []byte{t.Name}
		if anyLetter {
			letters = s.letters
		}
		for _, v := range t.Values {
			for _, letter := range letters {
				add(s.tag[tagValue{letter, v}])
			}
		}
	case f.Authors != nil:
		for _, a := range f.Authors {
			add(s.author[a])
		}
	case f.Kinds != nil:
		for _, k := range f.Kinds {
			add(s.kind[k])
		}
	default:
		for _, e := range s.byID {
			add([]*entry{e})
		}
		slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.arrival, b.arrival) })
	}
	return list
}

// isLetter reports whether the index of tags has such a condition: see [host.AddressOf].
func isLetter(t host.TagFilter) bool { return t.Name >= 'A' }

func tagsOf(e *host.Event) map[tagValue]struct{} {
	set := make(map[tagValue]struct{}, len(e.Tags))
	for _, t := range e.Tags {
		if len(t) > 1 && len(t[0]) == 1 {
			set[tagValue{t[0][0], t[1]}] = struct{}{}
		}
	}
	return set
}

// newestFirst is the order of NIP-01: events of one second by their ids.
func newestFirst(a, b *entry) int {
	if c := cmp.Compare(b.CreatedAt, a.CreatedAt); c != 0 {
		return c
	}
	return slices.Compare(a.ID[:], b.ID[:])
}

func newestArrivalFirst(a, b *entry) int {
	if c := cmp.Compare(b.CreatedAt, a.CreatedAt); c != 0 {
		return c
	}
	return cmp.Compare(b.arrival, a.arrival)
}

// oldestFirst has events of one second in the order of their ids too.
func oldestFirst(a, b *entry) int {
	if c := cmp.Compare(a.CreatedAt, b.CreatedAt); c != 0 {
		return c
	}
	return slices.Compare(a.ID[:], b.ID[:])
}
