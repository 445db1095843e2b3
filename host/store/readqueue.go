package store

import (
	"slices"
	"sync"
	"time"

	"talon/host"
	"talon/internal/heap"
)

const (
	// turnSlice is how long a read runs before it lets others go first that have used less.
	turnSlice = 10 * time.Millisecond

	// longRead is how long a read takes whose account counts as heavy for some seconds.
	longRead = 20 * time.Millisecond

	// expected is what a read is charged when it begins, until it is known.
	expected = time.Millisecond

	// accountRunning is how many reads of one account compete with those of others.
	// More wait for them.
	accountRunning = 4

	// workTime is the most that a piece of work takes where processors are free: a row with the
	// cost of finding it, columnBytes of its columns, and so on. A read that takes longer has
	// waited for a processor, and that time does not count as used.
	workTime = 20 * time.Microsecond

	argumentBytes = 256 // of the arguments of a statement
	columnBytes   = 512
	countedRows   = 32 // that are counted by SQLite
	soughtSpans   = 8  // of which nothing comes out unless they have something
	matchedValues = 64 // of a filter, with matchedBytes of an event
	matchedBytes  = 1024

	// idleConnection is how long a further connection stays open that nobody uses.
	idleConnection = 30 * time.Second

	// connectionsPerTurn is how many connections there are for each read that runs: a
	// read that lets others go first keeps its own, for its snapshot.
	connectionsPerTurn = 8
)

// readQueue decides who reads. It is a start-time fair queue: every account has a virtual
// time, which advances by what its reads take, and the read with the least goes first. An
// account that has been away starts at the time of the last read that began, so that
// nobody saves up and nobody pays for what was idle.
//
// The time of a read counts only up to the most that its work can take (workTime). On busy
// processors a small read may need as long as a large one elsewhere.
//
// A turn is the right to read; a connection is the means to read. A read that has used up
// its slice gives up its turn, but not its connection, while others with less virtual time
// wait. SQLite cannot pause a statement that it has begun. So half of the turns, and some of
// the connections, are only for light reads: the first slice of an account that is at most
// a slice ahead of the others, and of which no read took long lately. Light reads find both
// however many long reads are under way.
//
// The connections that are open from the start stay open. A further one closes when nobody has
// used it for keep.
type readQueue struct {
	now         func() time.Time
	keep        time.Duration
	slice       time.Duration
	base        time.Duration // what a read may take before it has met anything
	slots       int           // in all
	connections int           // in all, open or not

	mu       sync.Mutex  // guards the fields below, accounts and turns
	free     int         // turns
	long     int         // turns of reads that are not light
	idle     []*reader   // connections that are open: the further ones first, the last used last
	closed   int         // connections that may be opened
	reserved int         // connections for light reads
	closing  *time.Timer // nil while no further connection is idle
	clock    time.Duration
	entered  uint64
	returned sync.Cond                         // a connection has been given back
	waiting  [readClasses]heap.Heap[*readTurn] // for a turn
}

// readClass says what a read may take; it is a label.
type readClass uint8

const (
	lightRead  readClass = iota // in its first slice, of an account that has used little
	heavyRead                   // in its first slice, of another
	pausedRead                  // has had a slice, and keeps its connection
	readClasses
)

func (c readClass) String() string { return [readClasses]string{"light", "heavy", "paused"}[c] }

// account is what a client's reads have used.
type account struct {
	next    time.Duration // virtual time at which its next read begins
	running int           // reads in a heap, or with a turn
	waiting []*readTurn   // further reads, the first first

	longest time.Duration // a read at the time below; half of that a second later
	at      time.Time
}

// readTurn is one read.
type readTurn struct {
	account *account
	reader  *reader // nil while it has no connection
	dial    bool    // it is to open its connection itself

	has   bool // the right to read
	class readClass
	start time.Duration         // virtual time at which it begins
	order uint64                // of those that begin at the same time
	at    int                   // in its heap
	heap  *heap.Heap[*readTurn] // nil if it is in none
	began time.Time             // when it got the right to read
	used  time.Duration         // before that
	work  int                   // pieces of work done
	from  int                   // of them, before that
	ready chan struct{}         // closed when it has got the right to read; nil if nobody waits
}

func newReadQueue(n int) *readQueue {
	all := connectionsPerTurn * n
	q := &readQueue{now: time.Now, keep: idleConnection, slice: turnSlice, base: expected, slots: n, connections: all, free: n, closed: all, reserved: n}
	for class := range q.waiting {
		q.waiting[class] = heap.New((*readTurn).before, func(t *readTurn, place int) { t.at = place })
	}
	q.returned.L = &q.mu
	return q
}

// queue queues a read. The channel is closed when it has a turn; it is nil if it has one now.
func (q *readQueue) queue(share *host.Share) (t *readTurn, ready <-chan struct{}, class readClass) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t = q.enter(share)
	if !t.has {
		t.ready = make(chan struct{})
		ready = t.ready
	}
	return t, ready, t.class
}

// letOthers is pause. The channel is closed when t has a turn again; it is nil if t has kept its own.
func (q *readQueue) letOthers(t *readTurn) (ready <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pause(t) {
		t.ready = make(chan struct{})
		ready = t.ready
	}
	return ready
}

// end is release.
func (q *readQueue) end(t *readTurn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.release(t)
}

// enter queues a read. REQUIRES: q.mu.
func (q *readQueue) enter(share *host.Share) *readTurn {
	t := &readTurn{account: new(account)}
	if share != nil {
		if share.Account == nil {
			share.Account = t.account
		}
		t.account = share.Account.(*account)
	}
	if t.account.running == accountRunning {
		t.account.waiting = append(t.account.waiting, t)
		return t
	}
	q.compete(t)
	q.dispatch()
	return t
}

// compete puts a read without a connection into its heap. REQUIRES: q.mu.
func (q *readQueue) compete(t *readTurn) {
	t.account.running++
	q.tag(t)
	if t.start > q.clock+q.slice || t.account.recent(q.now()) > longRead {
		t.class = heavyRead
	}
	q.push(t)
}

// tag sets when the read begins. REQUIRES: q.mu.
func (q *readQueue) tag(t *readTurn) {
	t.start = max(q.clock, t.account.next)
	t.account.next = t.start + expected
}

func (q *readQueue) push(t *readTurn) {
	q.entered++
	t.order = q.entered
	t.heap = &q.waiting[t.class]
	t.heap.Push(t)
}

// next returns the read that goes first among those that can, nil if none can.
// REQUIRES: q.mu.
func (q *readQueue) next() *readTurn {
	var best *readTurn
	consider := func(class readClass) {
		if h := &q.waiting[class]; h.Len() > 0 && (best == nil || h.Top().before(best)) {
			best = h.Top()
		}
	}
	more := q.long < max(q.slots/2, 1)
	if more {
		consider(pausedRead)
	}
	connections := len(q.idle) + q.closed
	if connections > 0 {
		consider(lightRead)
	}
	if more && connections > q.reserved {
		consider(heavyRead)
	}
	return best
}

// dispatch gives the free turns away. REQUIRES: q.mu.
func (q *readQueue) dispatch() {
	for q.free > 0 {
		t := q.next()
		if t == nil {
			return
		}
		t.heap.Remove(t.at)
		t.heap = nil
		switch last := len(q.idle) - 1; {
		case t.reader != nil:
		case last >= 0:
			t.reader = q.idle[last]
			q.idle = q.idle[:last]
		default:
			q.closed--
			t.dial = true
		}
		q.begin(t)
		if t.ready != nil {
			close(t.ready)
			t.ready = nil
		}
	}
}

// begin gives t a free turn. REQUIRES: q.mu.
func (q *readQueue) begin(t *readTurn) {
	q.free--
	if t.class != lightRead {
		q.long++
	}
	t.has, t.began = true, q.now()
	q.clock = max(q.clock, t.start)
}

// finish takes the turn back and books what it has taken. REQUIRES: q.mu, and t has a turn.
func (q *readQueue) finish(t *readTurn) {
	t.has = false
	q.free++
	if t.class != lightRead {
		q.long--
	}
	took := q.used(t)
	t.used += took
	t.from = t.work
	t.account.next += took - expected
}

// used is what t has used of its turn.
func (q *readQueue) used(t *readTurn) time.Duration {
	return min(q.now().Sub(t.began), q.base+time.Duration(t.work-t.from)*workTime)
}

// recent is how long reads of the account took lately.
func (a *account) recent(now time.Time) time.Duration {
	return a.longest >> min(max(now.Sub(a.at)/time.Second, 0), 63)
}

// pause lets others go first if it is their turn. It reports whether t has lost its own,
// and must wait. REQUIRES: q.mu, and t has a turn.
func (q *readQueue) pause(t *readTurn) bool {
	q.finish(t)
	q.tag(t)
	t.class = pausedRead
	if best := q.next(); q.long < max(q.slots/2, 1) && (best == nil || t.start <= best.start) {
		q.begin(t)
		return false
	}
	q.push(t)
	q.dispatch()
	return !t.has
}

// release ends a read, wherever it is. REQUIRES: q.mu.
func (q *readQueue) release(t *readTurn) {
	a := t.account
	switch {
	case t.has:
		q.finish(t)
	case t.heap != nil:
		t.heap.Remove(t.at)
		t.heap = nil
		a.next -= expected
	default: // it waits for others of its account
		for i, w := range a.waiting {
			if w == t {
				a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
				break
			}
		}
		return
	}
	switch {
	case t.reader != nil:
		q.giveBack(t.reader)
		t.reader = nil
	case t.dial:
		q.closed++
	}
	q.returned.Broadcast()
	if now := q.now(); t.used >= a.recent(now) {
		a.longest, a.at = t.used, now
	}
	a.running--
	if len(a.waiting) > 0 {
		first := a.waiting[0]
		a.waiting[0] = nil
		a.waiting = a.waiting[1:]
		q.compete(first)
	}
	q.dispatch()
}

// giveBack makes the connection of a read idle. REQUIRES: q.mu.
func (q *readQueue) giveBack(r *reader) {
	if !r.further {
		q.idle = append(q.idle, r)
		return
	}
	r.unused = q.now()
	q.idle = slices.Insert(q.idle, q.idleFurther(), r)
	if q.closing == nil {
		q.closing = time.AfterFunc(q.keep, q.closeUnused)
	}
}

// idleFurther is the number of idle connections that may close. REQUIRES: q.mu.
func (q *readQueue) idleFurther() int {
	for i, r := range q.idle {
		if !r.further {
			return i
		}
	}
	return len(q.idle)
}

// closeUnused closes the further connections that nobody has used for keep, and comes again
// while any is idle. Reads do not wait for it: closing a connection unmaps the database.
func (q *readQueue) closeUnused() {
	unused := q.takeUnused()
	for _, r := range unused {
		_ = r.close() // it has only read
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed += len(unused)
	q.returned.Broadcast()
	q.dispatch()
}

// takeUnused removes the further connections that have been unused for long, and sets the timer for the next ones.
func (q *readQueue) takeUnused() []*reader {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, n := q.now(), 0
	further := q.idleFurther()
	for n < further && now.Sub(q.idle[n].unused) >= q.keep {
		n++
	}
	q.closing = nil
	if n < further {
		q.closing = time.AfterFunc(q.keep-now.Sub(q.idle[n].unused), q.closeUnused)
	}
	unused := slices.Clone(q.idle[:n])
	q.idle = slices.Delete(q.idle, 0, n)
	return unused
}

// add makes a connection available that stays open.
func (q *readQueue) add(r *reader) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed--
	q.idle = append(q.idle, r)
}

// shut waits until nobody reads, and returns the connections that are open. No read may
// enter any more.
func (q *readQueue) shut() []*reader {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.idle)+q.closed < q.connections {
		q.returned.Wait()
	}
	list := q.idle
	q.idle, q.free = nil, 0
	if q.closing != nil {
		q.closing.Stop()
	}
	return list
}

// busy returns how many reads have a turn.
func (q *readQueue) busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots - q.free
}

func (t *readTurn) before(u *readTurn) bool {
	return t.start < u.start || t.start == u.start && t.order < u.order
}
