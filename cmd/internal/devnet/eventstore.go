package devnet

import (
	"slices"
	"sync"

	"github.com/nbd-wtf/go-nostr"
)

// eventStore is the events of one relay, in memory. An event on it never changes: relays
// share them.
type eventStore struct {
	mu   sync.RWMutex // guards all fields
	byID map[string]*nostr.Event
	tags map[tagValue][]*nostr.Event
	kind map[int][]*nostr.Event
}

// put stores an event. It reports false if that changed nothing: it is here, or a
// newer one is in its place.
func (s *eventStore) put(e *nostr.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[e.ID] != nil {
		return false
	}
	if nostr.IsReplaceableKind(e.Kind) || nostr.IsAddressableKind(e.Kind) {
		for _, old := range s.kind[e.Kind] {
			if old.PubKey != e.PubKey || nostr.IsAddressableKind(e.Kind) && old.Tags.GetD() != e.Tags.GetD() {
				continue
			}
			if newer(old, e) {
				return false
			}
			s.remove(old)
			break
		}
	}
	s.byID[e.ID] = e
	s.kind[e.Kind] = append(s.kind[e.Kind], e)
	for t := range tagsOf(e) {
		s.tags[t] = append(s.tags[t], e)
	}
	return true
}

// delete forgets an event.
func (s *eventStore) delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byID[id]; e != nil {
		s.remove(e)
	}
}

// remove takes an event off. REQUIRES: mu.
func (s *eventStore) remove(e *nostr.Event) {
	without := func(list []*nostr.Event) []*nostr.Event {
		return slices.DeleteFunc(list, func(o *nostr.Event) bool { return o == e })
	}
	delete(s.byID, e.ID)
	s.kind[e.Kind] = without(s.kind[e.Kind])
	for t := range tagsOf(e) {
		s.tags[t] = without(s.tags[t])
	}
}

func (s *eventStore) count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byID)
}

// query returns the events that match, the newest first.
func (s *eventStore) query(f nostr.Filter) []*nostr.Event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []*nostr.Event
	s.candidates(&f, func(e *nostr.Event) {
		if f.Matches(e) {
			list = append(list, e)
		}
	})
	slices.SortFunc(list, func(a, b *nostr.Event) int {
		if a == b {
			return 0
		}
		if newer(a, b) {
			return -1
		}
		return 1
	})
	list = slices.Compact(list) // two values of a filter may name one event
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list
}

// candidates yields all events that may match, some more than once. REQUIRES: mu.
func (s *eventStore) candidates(f *nostr.Filter, yield func(*nostr.Event)) {
	if f.IDs != nil {
		for _, id := range f.IDs {
			if e := s.byID[id]; e != nil {
				yield(e)
			}
		}
		return
	}
	for name, values := range f.Tags {
		for _, v := range values {
			for _, e := range s.tags[tagValue{name, v}] {
				yield(e)
			}
		}
		return // each tag of a filter must match, so one of them is enough
	}
	if f.Kinds != nil {
		for _, k := range f.Kinds {
			for _, e := range s.kind[k] {
				yield(e)
			}
		}
		return
	}
	for _, e := range s.byID {
		yield(e)
	}
}

// tagValue is a tag that can be asked for.
type tagValue struct{ name, value string }

func newEventStore() *eventStore {
	return &eventStore{byID: map[string]*nostr.Event{}, tags: map[tagValue][]*nostr.Event{}, kind: map[int][]*nostr.Event{}}
}

func tagsOf(e *nostr.Event) map[tagValue]bool {
	set := make(map[tagValue]bool, len(e.Tags))
	for _, t := range e.Tags {
		if len(t) > 1 && len(t[0]) == 1 {
			set[tagValue{t[0], t[1]}] = true
		}
	}
	return set
}
