package ingest

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"talon/host"
	"talon/host/bound"
)

const (
	// slowAfter is how long a decision may take before it, and its source, count as
	// slow: a slow source has one decision under way at a time.
	slowAfter = 5 * time.Millisecond

	// maxSlow bounds the parallel decisions of the sources that are slow for one module. So
	// it bounds the readers, processes and instances that these decisions can occupy.
	maxSlow = 16

	// maxCredit is what a source may have used less than the others when it sends again,
	// and by which it goes before them. It is more than what the others are behind each
	// other: the time of a decision that waited for a processor.
	maxCredit = 5 * time.Millisecond

	// idleLanes is how long the scheduler remembers what the decisions of a source
	// that sends nothing have cost, and a module that nobody waits for.
	idleLanes = time.Minute
)

// schedule hands entries to workers. The entries of one source are in a lane, in the
// order of Submit. Lanes share the workers fairly: the next entry is of the lane that
// has used the least time (start-time fair queueing), so a source with slow decisions
// waits for its own. The lanes of one network count together, see [account], and known people are a
// [class] of their own. An entry that
// is decided, and first in its lane, makes the lane ready for the writer.
type schedule struct {
	workers int // that decide concurrently
	metrics *metrics

	mu       sync.Mutex // guards the fields below
	lanes    map[*host.Source]*lane
	unnamed  map[*lane]struct{} // lanes without a source, each with one entry
	known    *class
	others   *class
	clock    time.Duration // virtual time: of the class that was served last
	shares   map[string]*share
	queued   int      // slow lanes with work
	slowing  int      // decisions of slow sources under way
	retries  []*entry // decisions to be made again, before all others
	ready    []*entry // decided and first in their lanes; for the writer
	pending  int      // entries in lanes
	closed   bool     // nothing is submitted any more
	finished bool     // nothing is left to decide
	failed   error    // a worker panicked in the schedule, which may be inconsistent

	deciding  int // workers at work
	returning int // of those that have waited for facts and want to go on
	waiting   int // for facts and programs
	idle      int
	work      sync.Cond // signalled when there is something to decide
	resume    sync.Cond // signalled when one that has waited may go on
	spawn     func()    // starts another goroutine that works

	slots []chan struct{} // of senders that wait for room, the oldest first
	wake  chan struct{}   // tells the writer; holds one token
}

func newSchedule(workers int, m *metrics) *schedule {
	s := &schedule{
		workers: workers, metrics: m, lanes: make(map[*host.Source]*lane), unnamed: make(map[*lane]struct{}), shares: make(map[string]*share),
		known: newClass(true), others: newClass(false),
		wake: make(chan struct{}, 1),
	}
	s.work.L, s.resume.L = &s.mu, &s.mu
	return s
}

// share is the slow decisions whose longest wait was for one module. Those that are slow
// without waiting are of the share "", as the waits of the host itself.
type share struct {
	known   laneHeap // slow lanes of known people with work
	others  laneHeap // those of everybody else
	slowing int      // decisions of all such lanes under way
	foreign int      // of those, the decisions of lanes that are not of known people
	waiting int      // decisions that wait for the module now
	used    time.Time

	waits prometheus.Observer // seconds
	gauge prometheus.Gauge    // waiting
}

// lanes returns the heap of a class.
func (sh *share) lanes(c *class) *laneHeap {
	if c.known {
		return &sh.known
	}
	return &sh.others
}

// hasRoom reports whether a class may begin another slow decision.
func (sh *share) hasRoom(c *class) bool {
	return sh.slowing < maxSlow && (c.known || sh.foreign < maxSlow-maxSlowKnown)
}

// count counts decisions of a class that begin or end.
func (sh *share) count(c *class, n int) {
	if sh.slowing += n; !c.known {
		sh.foreign += n
	}
}

// share returns the share of a module. REQUIRES: mu.
func (s *schedule) share(module string) *share {
	sh := s.shares[module]
	if sh == nil {
		sh = &share{known: newLaneHeap(), others: newLaneHeap(), waits: s.metrics.waits.WithLabelValues(module), gauge: s.metrics.waiting.WithLabelValues(module)}
		s.shares[module] = sh
	}
	sh.used = time.Now()
	return sh
}

// add appends an entry to the lane of its source. A lane that has nothing to do goes to the class of
// the client, who may have become known. REQUIRES: mu.
func (s *schedule) add(source *host.Source, by bound.Holder, e *entry) {
	l := s.lanes[source]
	if l == nil {
		l = &lane{source: source}
		if source != nil {
			s.lanes[source] = l
		} else {
			s.unnamed[l] = struct{}{}
		}
	}
	if source == nil {
		by = bound.Holder{} // the lane goes with its entry, and has no accounts
	}
	if l.len() == 0 {
		if l.deciding == 0 {
			s.enter(l, by)
			l.used = max(l.used, l.class.clock-maxCredit)
			l.payers.raise(l.class.clock - maxCredit)
		}
		l.countBusy(1)
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
		s.share(l.module).lanes(l.class).push(l)
		s.queued++
	} else {
		l.class.fast.push(l)
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
	case s.waiting > 0:
		s.spawn()
	}
}

// callIfWork wakes a worker if there is something to decide. REQUIRES: mu.
func (s *schedule) callIfWork() {
	if len(s.retries)+s.fast()+s.queued > 0 {
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

// dequeue returns the next entry to decide, nil if there is none now. REQUIRES: mu.
func (s *schedule) dequeue() *entry {
	if s.deciding >= s.workers || s.returning > 0 {
		return nil
	}
	if len(s.retries) > 0 {
		e := s.retries[0]
		s.retries[0] = nil
		s.retries = s.retries[1:]
		return e
	}
	next, after := s.first(s.known), s.first(s.others)
	both := next.lane != nil && after.lane != nil
	if next.lane == nil || both && s.others.used < s.known.used {
		next = after
	}
	l := next.lane
	if l == nil {
		return nil
	}
	s.serve(l.class, both)
	next.heap.Pop()
	l.queued = false
	of := next.share
	switch {
	case of != nil:
		s.queued--
	case l.isSlow(): // since it was queued
		of = s.share(l.module)
	}
	e := l.entries[l.next]
	l.next++
	l.class.clock = max(l.class.clock, l.currentKey().first)
	e.reserved = l.average
	s.charge(l, l.average)
	l.deciding++
	e.first, e.verifyOnly = true, !l.ahead()
	if e.slow = of; of != nil {
		s.slowing++
		of.count(l.class, 1)
		l.payers.countSlow(1)
	}
	s.offer(l)
	return e
}

// candidate is a lane that may be served next, and the heap where it is on top.
type candidate struct {
	lane  *lane
	heap  *laneHeap
	share *share // nil for the lanes that are not slow
}

// first returns the lane of a class that has used least, nil if none may be served now.
// REQUIRES: mu.
func (s *schedule) first(c *class) candidate {
	least := candidate{c.fast.first(), &c.fast, nil}
	if s.queued == 0 {
		return least
	}
	for _, sh := range s.shares {
		if !sh.hasRoom(c) {
			continue
		}
		if l := s.firstSlow(c, sh); l != nil && (least.lane == nil || l.key.less(least.lane.key)) {
			least = candidate{l, sh.lanes(c), sh}
		}
	}
	return least
}

// fast is how many lanes with work are not slow. REQUIRES: mu.
func (s *schedule) fast() int { return s.known.fast.Len() + s.others.fast.Len() }

// done notes that an entry has been decided, which took so long. REQUIRES: mu.
func (s *schedule) done(e *entry, took time.Duration) {
	l := e.lane
	l.average += (took - l.average) / 8
	s.charge(l, took-e.reserved)
	e.reserved = 0
	if e.slow != nil {
		e.slow.count(l.class, -1)
		e.slow = nil
		s.slowing--
		l.payers.countSlow(-1)
	}
	s.offerWaiting(&l.payers)
	if took > slowAfter {
		l.module = e.waited
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

// appendReady moves the entries that are ready to the end of list.
func (s *schedule) appendReady(list []*entry) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	list = append(list, s.ready...)
	clear(s.ready)
	s.ready = s.ready[:0]
	return list
}

// order puts entries of different lanes into the order in which they take effect: those of the
// class, and then of the lanes, that have used least come first.
func (s *schedule) order(list []*entry) {
	if len(list) < 2 {
		return
	}
	s.mu.Lock()
	for _, e := range list {
		e.turn = turn{e.lane.class.used, e.lane.class.known, e.lane.currentKey()}
	}
	s.mu.Unlock()
	slices.SortStableFunc(list, func(a, b *entry) int {
		switch {
		case a.turn.before(b.turn):
			return -1
		case b.turn.before(a.turn):
			return 1
		}
		return 0
	})
}

// upcoming returns events that are decided and will be written next, if their decisions hold:
// those in the lanes of the entries whose turn has come, and of those that are ready.
func (s *schedule) upcoming(due []*entry, limit int) (events []*host.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[*lane]struct{}, len(due)+len(s.ready))
	for _, list := range [][]*entry{due, s.ready} {
		for _, e := range list {
			if _, twice := seen[e.lane]; twice {
				continue
			}
			seen[e.lane] = struct{}{}
			for _, e := range e.lane.entries[e.lane.head:] {
				if !e.decided || len(events) == limit {
					break
				}
				if e.release == nil && e.verdict == nil && e.err == nil && e.item.Event.Kind.Class() != host.Ephemeral {
					events = append(events, e.item.Event)
				}
			}
		}
	}
	return events
}

// claim takes an entry that is ready out of its turn.
func (s *schedule) claim(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.ready, e); i >= 0 {
		s.ready = slices.Delete(s.ready, i, i+1)
	}
}

// pop removes an entry from its lane, where it is the first: it took effect now, which took
// so long, or never will. It returns the one behind it if that is decided.
func (s *schedule) pop(e *entry, took time.Duration) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := e.lane
	s.charge(l, took)
	l.missed = max(l.missed-1, 0)
	l.entries[l.head] = nil
	l.head++
	s.pending--
	s.grantSlot()
	if l.head == len(l.entries) {
		l.countBusy(-1)
		l.entries, l.head, l.next = l.entries[:0], 0, 0
		l.emptied = time.Now()
		delete(s.unnamed, l)
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

// evictIdle removes lanes whose sources send nothing, and modules that nobody waits for.
func (s *schedule) evictIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for source, l := range s.lanes {
		if l.len() == 0 && l.deciding == 0 && now.Sub(l.emptied) > idleLanes {
			delete(s.lanes, source)
			l.class.closeAccounts(&l.payers)
		}
	}
	for module, sh := range s.shares {
		if sh.known.Len()+sh.others.Len()+sh.slowing+sh.waiting == 0 && now.Sub(sh.used) > idleLanes {
			delete(s.shares, module)
			s.metrics.waits.DeleteLabelValues(module)
			s.metrics.waiting.DeleteLabelValues(module)
		}
	}
}

// grantSlot lets the sender go on that has waited longest. REQUIRES: mu.
func (s *schedule) grantSlot() {
	if len(s.slots) > 0 {
		close(s.slots[0])
		s.slots[0] = nil
		s.slots = s.slots[1:]
	}
}

// releaseSlot withdraws a sender that waits for room. If the sender has its slot already, the next
// one gets it. REQUIRES: mu.
func (s *schedule) releaseSlot(room chan struct{}) {
	if i := slices.Index(s.slots, room); i >= 0 {
		s.slots = slices.Delete(s.slots, i, i+1)
		return
	}
	s.grantSlot()
}

// close takes nothing more from senders, those included that wait for room.
func (s *schedule) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for len(s.slots) > 0 {
		s.grantSlot()
	}
	s.wakeWriter()
}

// drained reports whether everything that was submitted has taken effect, and nothing more
// will be. It returns the error of [schedule.fail].
func (s *schedule) drained() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed && s.pending == 0, s.failed
}

// fail tells the writer that a worker cannot go on.
func (s *schedule) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	s.wakeWriter()
}

// abandon takes nothing more from senders, and returns the entries that have not taken effect.
func (s *schedule) abandon() (list []*entry) {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.unnamed {
		list = append(list, l.entries[l.head:]...)
	}
	for _, l := range s.lanes {
		list = append(list, l.entries[l.head:]...)
	}
	return list
}

// busy reports whether something is being decided, or waits to be, that is not slow.
func (s *schedule) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deciding > s.slowing || s.fast() > 0
}

// depth is how many entries have not taken effect yet.
func (s *schedule) depth() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending
}

// stop lets the workers go.
func (s *schedule) stop() {
	s.mu.Lock()
	s.finished = true
	s.work.Broadcast()
	s.mu.Unlock()
}
