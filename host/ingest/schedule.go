package ingest

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
)

const (
	// slowAfter is how long a decision may take before it, and its source, count as
	// slow: a slow source has one decision under way at a time.
	slowAfter = 5 * time.Millisecond

	// maxSlow bounds the decisions of slow sources that are under way together, and
	// with it what of stores, processes and instances they can occupy.
	maxSlow = 16

	// maxWaiting bounds the goroutines that wait for facts beside the workers.
	maxWaiting = 64

	// idleLanes is how long the scheduler remembers what the decisions of a source
	// that sends nothing have cost.
	idleLanes = time.Minute
)

// schedule hands entries to workers. The entries of one source are in a lane, in the
// order of Submit. Lanes share the workers fairly: the next entry is of the lane that
// has used the least time (start-time fair queueing), so a source with slow decisions
// waits for its own. An entry that is decided, and first in its lane, makes the lane
// ready for the writer.
type schedule struct {
	workers int                 // that decide at once
	waited  prometheus.Observer // seconds that decisions waited

	mu       sync.Mutex // guards the fields below
	lanes    map[*host.Source]*lane
	fast     laneHeap      // lanes with work
	slow     laneHeap      // likewise, of slow sources
	slowing  int           // decisions of slow sources under way
	clock    time.Duration // virtual time: of the lane that was served last
	retries  []*entry      // decisions to be made again, before all others
	ready    []*entry      // decided and first in their lanes; for the writer
	pending  int           // entries in lanes
	closed   bool          // nothing is submitted any more
	finished bool          // nothing is left to decide

	deciding  int // workers at work
	returning int // of those that have waited for facts and want to go on
	waiting   int // for facts
	idle      int
	work      sync.Cond // signalled when there is something to decide
	resume    sync.Cond // signalled when one that has waited may go on
	spawn     func()    // starts another goroutine that works

	rooms []chan struct{} // of senders that wait for room, the oldest first
	wake  chan struct{}   // tells the writer; holds one token
}

func newSchedule(workers int, waited prometheus.Observer) *schedule {
	s := &schedule{workers: workers, waited: waited, lanes: make(map[*host.Source]*lane), wake: make(chan struct{}, 1)}
	s.work.L, s.resume.L = &s.mu, &s.mu
	return s
}

// lane is the entries of one source.
type lane struct {
	source  *host.Source
	entries []*entry // from head on, in the order of Submit
	head    int
	next    int // the first entry that no worker has taken

	deciding int           // workers on entries of this lane
	used     time.Duration // virtual time
	key      time.Duration // of the heap: used when it was pushed
	average  time.Duration // moving average of the time of one decision
	missed   int           // grows when decisions made ahead turn out stale, up to maxMissed
	queued   bool          // in a heap
	emptied  time.Time     // when the last entry went
}

const (
	// missedAhead is from where on a lane's events are decided only when their turn
	// comes: deciding them ahead would be done twice.
	missedAhead = 4
	maxMissed   = 16
)

func (l *lane) len() int { return len(l.entries) - l.head }

// isSlow reports whether decisions of this source take long.
func (l *lane) isSlow() bool { return l.average > slowAfter }

// ahead reports whether events of this source are decided before their turn.
func (l *lane) ahead() bool { return l.missed < missedAhead }

// add appends an entry to the lane of its source. REQUIRES: mu.
func (s *schedule) add(source *host.Source, e *entry) {
	l := s.lanes[source]
	if l == nil {
		l = &lane{source: source}
		if source != nil {
			s.lanes[source] = l
		}
	}
	if l.len() == 0 && l.deciding == 0 {
		l.used = max(l.used, s.clock)
	}
	e.lane = l
	l.entries = append(l.entries, e)
	s.pending++
	s.offer(l)
}

// offer puts a lane where workers find it, if it has something to decide now.
// REQUIRES: mu.
func (s *schedule) offer(l *lane) {
	if l.queued || l.next >= len(l.entries) || l.deciding >= s.workers || l.isSlow() && l.deciding > 0 {
		return
	}
	l.queued = true
	if l.isSlow() {
		s.slow.push(l)
	} else {
		s.fast.push(l)
	}
	s.call()
}

// call wakes a worker if one can work. REQUIRES: mu.
func (s *schedule) call() {
	if s.deciding >= s.workers || s.returning > 0 {
		return
	}
	switch {
	case s.idle > 0:
		s.work.Signal()
	case s.waiting > 0 && s.waiting <= maxWaiting:
		s.spawn()
	}
}

// callIfWork wakes a worker if there is something to decide. REQUIRES: mu.
func (s *schedule) callIfWork() {
	if len(s.retries)+len(s.fast)+len(s.slow) > 0 {
		s.call()
	}
}

// retry has an entry decided before all others. The channel is closed when it is.
func (s *schedule) retry(e *entry) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.notify = make(chan struct{})
	s.retries = append(s.retries, e)
	s.call()
	return e.notify
}

// take returns the entry that is to be decided next, nil if there is none now.
// REQUIRES: mu.
func (s *schedule) take() *entry {
	if s.deciding >= s.workers || s.returning > 0 {
		return nil
	}
	if len(s.retries) > 0 {
		e := s.retries[0]
		s.retries[0] = nil
		s.retries = s.retries[1:]
		return e
	}
	h := &s.fast
	if len(s.slow) > 0 && s.slowing < maxSlow && (len(s.fast) == 0 || s.slow[0].key < s.fast[0].key) {
		h = &s.slow
	}
	if len(*h) == 0 {
		return nil
	}
	l := h.pop()
	l.queued = false
	e := l.entries[l.next]
	l.next++
	s.clock = max(s.clock, l.used)
	e.reserved = l.average
	l.used += l.average
	l.deciding++
	e.first, e.verifyOnly = true, !l.ahead()
	if e.slow = l.isSlow(); e.slow {
		s.slowing++
	}
	s.offer(l)
	return e
}

// done notes that an entry has been decided, which took so long.
func (s *schedule) done(e *entry, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := e.lane
	l.average += (took - l.average) / 8
	l.used += took - e.reserved
	e.reserved = 0
	if e.slow {
		e.slow = false
		s.slowing--
	}
	if e.first {
		e.first = false
		l.deciding--
	}
	e.decided = true
	if e.notify != nil {
		close(e.notify)
		e.notify = nil
	}
	if l.len() > 0 && l.entries[l.head] == e {
		s.ready = append(s.ready, e)
		s.wakeWriter()
	}
	s.offer(l)
}

func (s *schedule) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// turns moves the entries that are ready to the end of list.
func (s *schedule) turns(list []*entry) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = append(list, s.ready...)
	clear(s.ready)
	s.ready = s.ready[:0]
	return list
}

// claim takes an entry that is ready out of its turn.
func (s *schedule) claim(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.ready, e); i >= 0 {
		s.ready = slices.Delete(s.ready, i, i+1)
	}
}

// pop removes an entry from its lane, where it is the first: it takes effect now or
// never. It returns the one behind it if that is decided.
func (s *schedule) pop(e *entry) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := e.lane
	l.missed = max(l.missed-1, 0)
	l.entries[l.head] = nil
	l.head++
	s.pending--
	s.giveRoom()
	if l.head == len(l.entries) {
		l.entries, l.head, l.next = l.entries[:0], 0, 0
		l.emptied = time.Now()
		return nil
	}
	if l.head > 64 && l.head > len(l.entries)/2 {
		n := copy(l.entries, l.entries[l.head:])
		clear(l.entries[n:])
		l.entries = l.entries[:n]
		l.next -= l.head
		l.head = 0
	}
	if next := l.entries[l.head]; next.decided {
		return next
	}
	return nil
}

// yield makes an entry one that is not decided; missed says that it was decided ahead
// in vain.
func (s *schedule) yield(e *entry, missed bool) {
	s.mu.Lock()
	e.decided = false
	if missed {
		e.lane.missed = min(2*e.lane.missed+2, maxMissed)
	}
	s.mu.Unlock()
}

// forget removes lanes whose sources send nothing.
func (s *schedule) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for source, l := range s.lanes {
		if l.len() == 0 && l.deciding == 0 && now.Sub(l.emptied) > idleLanes {
			delete(s.lanes, source)
		}
	}
}

// giveRoom lets the sender go on that has waited longest. REQUIRES: mu.
func (s *schedule) giveRoom() {
	if len(s.rooms) > 0 {
		close(s.rooms[0])
		s.rooms[0] = nil
		s.rooms = s.rooms[1:]
	}
}

// leaveRoom withdraws a sender that waits for room. If it was let go meanwhile, the
// next one goes. REQUIRES: mu.
func (s *schedule) leaveRoom(room chan struct{}) {
	if i := slices.Index(s.rooms, room); i >= 0 {
		s.rooms = slices.Delete(s.rooms, i, i+1)
		return
	}
	s.giveRoom()
}

// close takes nothing more from senders, those included that wait for room.
func (s *schedule) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.rooms) > 0 {
		s.giveRoom()
	}
	s.wakeWriter()
}

// drained reports whether everything that was submitted has taken effect, and
// nothing more will be.
func (s *schedule) drained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.pending == 0
}

// busy reports whether something is being decided, or waits to be, that is not slow.
func (s *schedule) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deciding > s.slowing || len(s.fast) > 0
}

// depth is how many entries have not taken effect yet.
func (s *schedule) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// waits is how many decisions wait without a worker.
func (s *schedule) waits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

// end lets the workers go.
func (s *schedule) end() {
	s.mu.Lock()
	s.finished = true
	s.work.Broadcast()
	s.mu.Unlock()
}

// laneHeap is a binary heap of lanes, the one that has used the least time first.
type laneHeap []*lane

func (h *laneHeap) push(l *lane) {
	l.key = l.used
	*h = append(*h, l)
	a := *h
	for i := len(a) - 1; i > 0; {
		parent := (i - 1) / 2
		if a[parent].key <= a[i].key {
			return
		}
		a[parent], a[i] = a[i], a[parent]
		i = parent
	}
}

func (h *laneHeap) pop() *lane {
	a := *h
	top, n := a[0], len(a)-1
	a[0], a[n] = a[n], nil
	a = a[:n]
	*h = a
	for i := 0; ; {
		child := 2*i + 1
		if child >= n {
			return top
		}
		if child+1 < n && a[child+1].key < a[child].key {
			child++
		}
		if a[i].key <= a[child].key {
			return top
		}
		a[i], a[child] = a[child], a[i]
		i = child
	}
}
