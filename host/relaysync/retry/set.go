package retry

import (
	"cmp"
	"container/heap"
	"container/list"
	"slices"

	"talon/host"
)

// Limits bounds a set. Every number must be positive.
type Limits struct {
	Events int
	Bytes  int   // of the texts of all events
	Age    int64 // seconds that an event is kept
	Tries  int   // of one event
	Ahead  int64 // seconds that an event may be dated ahead to be kept until its time
}

// DefaultLimits hold what a few large repositories need whose announcement comes
// last. A comment names the announcements of all maintainers beside its root, and each of
// these may arrive twice, held and then released: it needs more tries than that.
var DefaultLimits = Limits{Events: 20_000, Bytes: 32 << 20, Age: 3600, Tries: 20, Ahead: 24 * 3600}

// Set holds events that were refused.
type Set struct {
	limits  Limits
	entries map[host.ID]*entry
	waiting map[key][]*entry
	sources map[string]*list.List // of *entry, oldest first; none is empty
	order   *list.List            // of *entry, oldest first, but for those that are dated
	dated   dated                 // those whose time has not come
	due     *list.List            // of *entry that are to be decided once more, in that order
	bytes   int
	count   uint64 // entries so far
	recent  recent
}

type entry struct {
	number uint64 // in the order of coming
	event  *host.Event
	source string
	since  int64
	tries  int
	out    bool // due, or taken and not answered yet
	again  bool // its time came while it was out
	keys   []key
	mine   *list.Element // in sources
	all    *list.Element // in order; nil if it is dated
	place  int           // in dated
	due    *list.Element // in due; nil if it is not
}

// New returns an empty set.
func New(l Limits) *Set {
	return &Set{
		limits:  l,
		entries: make(map[host.ID]*entry),
		waiting: make(map[key][]*entry),
		sources: make(map[string]*list.List),
		order:   list.New(),
		due:     list.New(),
		recent:  newRecent(),
	}
}

// Retry is an event that is to be decided once more.
type Retry struct {
	Event  *host.Event
	Source string // from which it came first
}

// Mark says how far the set has seen. It is taken before an event is decided, or
// at any time before that.
func (s *Set) Mark() uint64 { return s.recent.count }

// Len returns the number of events in the set.
func (s *Set) Len() int { return len(s.entries) }

// Bytes returns the bytes of their texts.
func (s *Set) Bytes() int { return s.bytes }

// Add notes that an event was refused. It is due at once if something that it needs
// has arrived since the mark.
func (s *Set) Add(e *host.Event, source string, mark uint64, now int64) {
	x := s.entries[e.ID]
	switch {
	case x == nil:
		if len(e.JSON) > s.limits.Bytes {
			return
		}
		x = &entry{event: e, source: source, since: now, keys: keysOf(e)}
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
			s.drop(x)
		} // else it is tried again at its time
		return
	}
	if x.again {
		x.again = false
		s.schedule(x)
		return
	}
	for _, k := range x.keys {
		if s.recent.after(k, mark) {
			s.schedule(x)
			return
		}
	}
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

// Dequeue takes the event of Next out: it is on its way. REQUIRES: one is due.
func (s *Set) Dequeue() { s.due.Remove(s.due.Front()).(*entry).due = nil }

// TryAll makes all events due, oldest first: who decides has changed.
func (s *Set) TryAll() {
	all := slices.Clone(s.dated)
	for at := s.order.Front(); at != nil; at = at.Next() {
		all = append(all, at.Value.(*entry))
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	for _, x := range all {
		s.schedule(x)
	}
}

// Arrived notes that an event was accepted. Those that waited for it are due, oldest
// first.
func (s *Set) Arrived(e *host.Event) {
	if x := s.entries[e.ID]; x != nil {
		s.drop(x)
	}
	s.recent.begin()
	var found []*entry
	for _, k := range answers(e) {
		s.recent.add(k)
		found = append(found, s.waiting[k]...)
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(a.number, b.number) })
	for _, x := range found {
		s.schedule(x) // once
	}
}

// Requeue notes that an event that was taken could not be tried.
func (s *Set) Requeue(id host.ID) {
	if x := s.entries[id]; x != nil && x.out && x.due == nil {
		x.out = false
		x.tries--
	}
}

// Forget removes an event, for it is known here.
func (s *Set) Forget(id host.ID) {
	if x := s.entries[id]; x != nil {
		s.drop(x)
	}
}

// Expire removes what is too old, and makes due what was dated ahead and whose time has
// come.
func (s *Set) Expire(now int64) {
	for len(s.dated) > 0 && s.dated[0].event.CreatedAt <= now {
		x := heap.Pop(&s.dated).(*entry)
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
		s.drop(x)
	}
}

func (s *Set) insert(x *entry, ahead bool) {
	for len(s.entries) > 0 && (len(s.entries) >= s.limits.Events || s.bytes+len(x.event.JSON) > s.limits.Bytes) {
		s.drop(s.largest().Front().Value.(*entry))
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
		heap.Push(&s.dated, x)
	} else {
		x.all = s.order.PushBack(x)
	}
}

// dated is a heap (container/heap) of what was dated ahead, by its date.
type dated []*entry

func (d dated) Len() int           { return len(d) }
func (d dated) Less(i, j int) bool { return d[i].event.CreatedAt < d[j].event.CreatedAt }

func (d dated) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *dated) Push(x any) {
	e := x.(*entry)
	e.place = len(*d)
	*d = append(*d, e)
}

func (d *dated) Pop() any {
	last := len(*d) - 1
	x := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return x
}

// largest returns the events of the source that has most. REQUIRES: there is one.
func (s *Set) largest() (most *list.List) {
	for _, l := range s.sources {
		if most == nil || l.Len() > most.Len() {
			most = l
		}
	}
	return most
}

func (s *Set) drop(x *entry) {
	delete(s.entries, x.event.ID)
	s.bytes -= len(x.event.JSON)
	if x.all != nil {
		s.order.Remove(x.all)
	} else {
		heap.Remove(&s.dated, x.place)
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
