// Package retry stores refused events, and decides when to try one of them again. An event
// gets another try after the acceptance of an event that it names, or that names it. An
// event that is dated ahead gets one when its time has come. So neither the order of
// arrival nor a wrong clock decides which events stay. [Expired] does the same for events that
// expired in purgatory.
//
// The package ignores the reason of a refusal, which is for people. An event that would be
// refused in any case costs its place and a few tries.
//
// Invariants:
//
//  1. [Limits] bound the events and bytes of a [Set], the time that each event is kept,
//     counted from its date if it is dated ahead, and the number of tries of each. One
//     that is due stays so until it is taken, however many others are.
//  2. When there is no room, the source that has most events in the set loses its
//     oldest: one that sends rubbish pushes out its own.
//  3. Nothing that arrives between the decision about an event and [Set.Add] is
//     missed: the mark that was taken before the decision says what is new.
//
// A set has no clock, lock or goroutine: one goroutine owns it.
package retry

import (
	"cmp"
	"container/list"
	"hash/maphash"
	"iter"
	"slices"

	"talon/host"
	"talon/internal/heap"
)

// Limits bounds a set. Every number must be positive.
type Limits struct {
	Events int
	Bytes  int   // of the texts of all events
	Age    int64 // seconds that an event is kept
	Tries  int   // of one event
	Ahead  int64 // seconds that an event may be dated ahead to be kept until its time
}

// DefaultLimits are enough for a few large repositories whose announcement comes last. A
// comment names its root and the announcements of all maintainers. Each of these may arrive
// twice, held and then released, and the comment needs more tries than that.
var DefaultLimits = Limits{Events: 20_000, Bytes: 32 << 20, Age: 3600, Tries: 20, Ahead: 24 * 3600}

// Set holds events that were refused.
type Set struct {
	limits    Limits
	entries   map[host.ID]*entry
	waiting   map[key][]*entry
	sources   map[string]*list.List // of *entry, oldest first; none is empty
	order     *list.List            // of *entry, oldest first, but for those that are dated
	scheduled heap.Heap[*entry]     // those whose time has not come
	due       *list.List            // of *entry that are to be decided once more, in that order
	bytes     int
	count     uint64 // entries so far
	recent    recent
}

type entry struct {
	number    uint64 // in the order of coming
	event     *host.Event
	source    string
	since     int64
	tries     int
	out       bool // due, or taken and not answered yet
	again     bool // its time came while it was out
	keys      []key
	mine      *list.Element // in sources
	all       *list.Element // in order; nil if it is dated
	heapIndex int           // in dated
	due       *list.Element // in due; nil if it is not
}

// New returns an empty set.
func New(l Limits) *Set {
	return &Set{
		limits:    l,
		entries:   make(map[host.ID]*entry),
		waiting:   make(map[key][]*entry),
		sources:   make(map[string]*list.List),
		order:     list.New(),
		due:       list.New(),
		recent:    newRecent(),
		scheduled: heap.New(func(a, b *entry) bool { return a.event.CreatedAt < b.event.CreatedAt }, func(x *entry, place int) { x.heapIndex = place }),
	}
}

// Retry is an event for another decision.
type Retry struct {
	Event  *host.Event
	Source string // from which it came first
}

// Position returns the set's position among accepted events. It is taken before an event is
// decided, or at any time before that.
func (s *Set) Position() uint64 { return s.recent.count }

// Len returns the number of events in the set.
func (s *Set) Len() int { return len(s.entries) }

// Bytes returns the bytes of their texts.
func (s *Set) Bytes() int { return s.bytes }

// Add adds a refused event. It is due immediately if something that it needs has arrived
// since the position.
func (s *Set) Add(e *host.Event, source string, position uint64, now int64) {
	x := s.entries[e.ID]
	switch {
	case x == nil:
		if len(e.JSON) > s.limits.Bytes {
			return
		}
		x = &entry{event: e, source: source, since: now, keys: keysOf(e.Needs())}
		if len(x.keys) == 0 {
			return
		}
		s.insert(x, e.CreatedAt > now && e.CreatedAt-now <= s.limits.Ahead)
	case x.due != nil:
		return // of another copy
	}
	x.out = false
	if x.tries == s.limits.Tries {
		if x.all != nil {
			s.remove(x)
		} // else it is tried again at its time
		return
	}
	if x.again {
		x.again = false
		s.schedule(x)
		return
	}
	for _, k := range x.keys {
		if s.recent.arrivedAfter(k, position) {
			s.schedule(x)
			return
		}
	}
}

// Due makes an event due, whether it is in the set or not.
func (s *Set) Due(e *host.Event, source string, now int64) {
	x := s.entries[e.ID]
	if x == nil {
		if len(e.JSON) > s.limits.Bytes {
			return
		}
		x = &entry{event: e, source: source, since: now, keys: keysOf(e.Needs())}
		s.insert(x, false)
	}
	s.schedule(x)
}

// schedule makes an entry due, unless it is out or was tried too often.
func (s *Set) schedule(x *entry) {
	if !x.out && x.tries < s.limits.Tries {
		x.out = true
		x.tries++
		x.due = s.due.PushBack(x)
	}
}

// Next returns the event that is due for longest, and false if none is. It stays due
// until [Set.Dequeue].
func (s *Set) Next() (Retry, bool) {
	front := s.due.Front()
	if front == nil {
		return Retry{}, false
	}
	x := front.Value.(*entry)
	return Retry{x.event, x.source}, true
}

// Dequeue removes the event that Next returned. REQUIRES: one is due.
func (s *Set) Dequeue() { s.due.Remove(s.due.Front()).(*entry).due = nil }

// TryAll makes all events due, oldest first, after a change of policies.
func (s *Set) TryAll() {
	all := slices.Clone(s.scheduled.Items())
	for at := s.order.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*entry))
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	for _, x := range all {
		s.schedule(x)
	}
}

// Arrived records that an event was accepted. Those that waited for it are due, oldest
// first.
func (s *Set) Arrived(e *host.Event) {
	if x := s.entries[e.ID]; x != nil {
		s.remove(x)
	}
	s.recent.begin()
	var found []*entry
	for _, k := range keysOf(e.Meets()) {
		s.recent.add(k)
		found = append(found, s.waiting[k]...)
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	for _, x := range found {
		s.schedule(x) // once
	}
}

// Requeue puts back an event that could not be tried.
func (s *Set) Requeue(id host.ID) {
	if x := s.entries[id]; x != nil && x.out && x.due == nil {
		x.out = false
		x.tries--
	}
}

// Forget removes an event, for it is known here.
func (s *Set) Forget(id host.ID) {
	if x := s.entries[id]; x != nil {
		s.remove(x)
	}
}

// Expire removes events that are too old, and makes those due that were dated ahead and
// whose time has come.
func (s *Set) Expire(now int64) {
	for s.scheduled.Len() > 0 && s.scheduled.Top().event.CreatedAt <= now {
		x := s.scheduled.Pop()
		// From now on it is as one that has come now.
		x.since, x.all = now, s.order.PushBack(x)
		if x.tries = 0; x.out {
			x.tries = 1 // it is under way, and may have been decided too early
			x.again = true
		}
		s.schedule(x)
	}
	for front := s.order.Front(); front != nil; front = s.order.Front() {
		x := front.Value.(*entry)
		if now-x.since < s.limits.Age {
			return
		}
		s.remove(x)
	}
}

func (s *Set) insert(x *entry, ahead bool) {
	for len(s.entries) > 0 && (len(s.entries) >= s.limits.Events || s.bytes+len(x.event.JSON) > s.limits.Bytes) {
		s.remove(largest(s.sources).Front().Value.(*entry))
	}
	s.count++
	x.number = s.count
	s.entries[x.event.ID] = x
	s.bytes += len(x.event.JSON)
	for _, k := range x.keys {
		s.waiting[k] = append(s.waiting[k], x)
	}
	mine := s.sources[x.source]
	if mine == nil {
		mine = list.New()
		s.sources[x.source] = mine
	}
	x.mine = mine.PushBack(x)
	if ahead {
		s.scheduled.Push(x)
	} else {
		x.all = s.order.PushBack(x)
	}
}

// largest returns the events of the source that has most. REQUIRES: there is one.
func largest(sources map[string]*list.List) (found *list.List) {
	name := ""
	for source, l := range sources {
		if found == nil || l.Len() > found.Len() || l.Len() == found.Len() && source < name {
			found, name = l, source
		}
	}
	return found
}

func (s *Set) remove(x *entry) {
	delete(s.entries, x.event.ID)
	s.bytes -= len(x.event.JSON)
	if x.all != nil {
		s.order.Remove(x.all)
	} else {
		s.scheduled.Remove(x.heapIndex)
	}
	if x.due != nil {
		s.due.Remove(x.due)
	}
	mine := s.sources[x.source]
	mine.Remove(x.mine)
	if mine.Len() == 0 {
		delete(s.sources, x.source)
	}
	for _, k := range x.keys {
		rest := s.waiting[k]
		for i, other := range rest {
			if other == x {
				rest = append(rest[:i], rest[i+1:]...)
				break
			}
		}
		if len(rest) == 0 {
			delete(s.waiting, k)
		} else {
			s.waiting[k] = rest
		}
	}
}

// key is the hash of a thing that an event may wait for. A collision causes an unnecessary
// try.
type key uint64

var seed = maphash.MakeSeed()

// maxKeys bounds what is read of an event: what it is called, and 64 references. An event that
// names thousands of others is not about any of them.
const maxKeys = 68

// keysOf returns the keys of needs, sorted, each once.
func keysOf(needs iter.Seq[host.Need]) (keys []key) {
	for need := range needs {
		if keys = append(keys, keyOf(need)); len(keys) == maxKeys {
			break
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func keyOf(need host.Need) key {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = h.WriteByte(byte(need.By))
	_, _ = h.WriteString(need.Value)
	return key(h.Sum64())
}

// recentKeys is how many keys of arrivals are remembered. An event whose decision
// took longer than these reach back is tried once more.
const recentKeys = 16384

// recent remembers when keys arrived last.
type recent struct {
	count    uint64 // arrivals so far
	last     map[key]uint64
	ring     []arrived // the latest keys, in the order of their arrival
	at       int       // where the next one goes
	complete uint64    // every key that arrived after this is in last
}

type arrived struct {
	key   key
	count uint64
}

func newRecent() recent { return recent{last: make(map[key]uint64)} }

// begin starts an arrival, whose keys are added then.
func (r *recent) begin() { r.count++ }

func (r *recent) add(k key) {
	if len(r.ring) < recentKeys {
		r.ring = append(r.ring, arrived{k, r.count})
	} else {
		old := r.ring[r.at]
		if r.last[old.key] == old.count {
			delete(r.last, old.key)
		}
		r.complete = old.count
		r.ring[r.at] = arrived{k, r.count}
		r.at = (r.at + 1) % recentKeys
	}
	r.last[k] = r.count
}

// arrivedAfter reports whether a key arrived after the position, as far as is known.
func (r *recent) arrivedAfter(k key, position uint64) bool {
	return r.last[k] > position || position < r.complete
}
