package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"talon/host"
)

// queue is a fair queue whose clock the test moves.
type queue struct {
	t testing.TB
	*readQueue
	at time.Time
}

func newQueue(t testing.TB, n int) *queue {
	q := &queue{t: t, readQueue: newReadQueue(n), at: time.Unix(0, 0)}
	q.base = time.Hour // all work
	q.now = func() time.Time { return q.at }
	return q
}

func (q *queue) pass(ms int) { q.at = q.at.Add(time.Duration(ms) * time.Millisecond) }

// done ends a read that has opened the given connection.
func (q *queue) done(t *readTurn) {
	q.t.Helper()
	if t.dial {
		t.dial, t.reader = false, new(reader)
	}
	q.release(t)
	q.check()
}

func (q *queue) want(has bool, reads ...*readTurn) {
	q.t.Helper()
	for i, t := range reads {
		if t.has != has {
			q.t.Fatalf("read %d has a turn: %v", i, t.has)
		}
	}
	q.check()
}

// check compares what is counted with what is there, as far as the queue knows it.
func (q *queue) check() {
	q.t.Helper()
	if q.free < 0 || q.long < 0 || q.closed < 0 || q.free > q.readQueue.slots || len(q.idle)+q.closed > q.connections {
		q.t.Fatalf("%d turns are free, %d long, %d connections idle, %d closed", q.free, q.long, len(q.idle), q.closed)
	}
	if q.free > 0 && q.next() != nil {
		q.t.Fatal("a turn is free, and a read waits that can have it")
	}
}

// An account that has read much waits for one that has not, whichever came first.
func TestTurnsGoToWhoHasUsedLess(t *testing.T) {
	q := newQueue(t, 2)
	var heavy, light host.Share
	first := q.enter(&heavy)
	q.pass(500)
	q.done(first)

	a, b := q.enter(nil), q.enter(nil)
	again, small := q.enter(&heavy), q.enter(&light)
	q.want(true, a, b)
	q.want(false, again, small)
	q.pass(1)
	q.done(a)
	q.want(true, small)
	q.want(false, again)
	q.pass(1)
	q.done(small)
	q.want(true, again) // nobody else wants it

	// The light one has used less since then than the heavy one is ahead of all others. So it
	// goes first again, and again.
	for range 20 {
		q.done(b)
		b = q.enter(nil)
		small = q.enter(&light)
		q.want(true, b)
		q.want(false, small)
		q.pass(1)
		q.done(b)
		q.want(true, small)
		q.pass(1)
		q.done(small)
		b = q.enter(nil)
	}
}

// Long reads take all turns but one. They cannot pause a statement that has begun, and another
// read may come before it ends.
func TestLongReadsLeaveATurn(t *testing.T) {
	q := newQueue(t, 2)
	a, b := q.enter(nil), q.enter(nil)
	q.pass(50)
	if q.pause(a) {
		t.Fatal("the only long read waits, and nobody else does")
	}
	if !q.pause(b) {
		t.Fatal("the second long read does not wait")
	}
	for range 3 {
		small := q.enter(nil)
		q.want(true, small, a)
		q.want(false, b)
		q.pass(1)
		q.done(small)
	}
	q.pass(50)
	if !q.pause(a) {
		t.Fatal("a read that has used more goes on")
	}
	q.want(true, b)
	q.want(false, a)
	q.pass(200)
	q.done(b)
	q.want(true, a)
	q.done(a)
}

// With one turn there is none to leave, and reads take it in slices.
func TestOneTurn(t *testing.T) {
	q := newQueue(t, 1)
	long := q.enter(nil)
	q.pass(20)
	if q.pause(long) {
		t.Fatal("a read waits for nobody")
	}
	small := q.enter(nil)
	q.want(false, small)
	q.pass(10)
	if !q.pause(long) {
		t.Fatal("a long read does not let a small one go first")
	}
	q.want(true, small)
	q.done(small)
	q.want(true, long)
	q.done(long)
}

// A read that waits for a processor is not one that has read much: it keeps its turn, and
// its account goes first afterwards as it did before.
func TestWaitingIsNoWork(t *testing.T) {
	q := newQueue(t, 2)
	q.base = expected
	var small, large host.Share
	long, read := q.enter(&large), q.enter(&small)
	q.want(true, long, read)
	q.pass(500)
	read.work = 20
	if took := q.used(read); took >= q.slice {
		t.Errorf("20 rows are charged %v", took)
	}
	q.done(read)
	long.work = int(time.Second / workTime)
	if took := q.used(long); took != 500*time.Millisecond {
		t.Errorf("a read that could take a second is charged %v of 500 ms", took)
	}
	q.done(long)
	if read = q.enter(&small); read.class != lightRead {
		t.Error("who waited for a processor counts as heavy")
	}
	q.want(true, read)
	if long = q.enter(&large); long.class != heavyRead {
		t.Error("who has just read for 500 ms counts as light")
	}
}

// One account competes with a few reads, however many it has.
func TestAccountIsOne(t *testing.T) {
	q := newQueue(t, 1)
	busy := q.enter(nil)
	var crowd host.Share
	var reads []*readTurn
	for range 3 * accountRunning {
		reads = append(reads, q.enter(&crowd))
	}
	other := q.enter(nil)
	q.pass(5)
	q.done(busy)
	q.want(true, reads[0])
	q.pass(5)
	q.done(reads[0])
	q.want(true, other)
	q.done(other)
	q.release(reads[len(reads)-1]) // gives up before its time
	for i := 1; i < len(reads)-1; i++ {
		q.want(true, reads[i])
		q.done(reads[i])
	}
	if a := crowd.Account.(*account); a.running != 0 || len(a.waiting) != 0 {
		t.Errorf("%d run, %d wait", a.running, len(a.waiting))
	}
}

// However many long reads keep a connection while they wait, a turn and a connection are
// left for who has read little.
func TestConnectionsForLightReads(t *testing.T) {
	q := newQueue(t, 2)
	var shares [4 * connectionsPerTurn]host.Share
	for i := range shares { // of whom each has just read much
		shares[i].Account = &account{longest: time.Second, at: q.at}
	}
	var waiting []*readTurn
	for i := range shares {
		waiting = append(waiting, q.enter(&shares[i]))
	}
	begun := 0
	for range 4 * len(shares) {
		q.pass(20)
		for _, r := range waiting {
			if !r.has {
				continue
			}
			if r.dial {
				begun++
				r.dial, r.reader = false, new(reader)
			}
			q.pause(r)
		}
		small := q.enter(nil)
		q.want(true, small)
		q.done(small)
	}
	if begun == 0 || begun > q.connections-q.reserved {
		t.Errorf("%d long reads have a connection, of %d", begun, q.connections)
	}
}

// Nothing is lost, whatever reads do and wherever they are when they give up.
func TestTurnsAreGivenBack(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		q := newQueue(t, 1+rnd.IntN(4))
		shares := make([]host.Share, 6)
		var reads []*readTurn
		for range 2000 {
			q.pass(rnd.IntN(30))
			switch n := rnd.IntN(10); {
			case n < 4 && len(reads) < 100:
				share := &shares[rnd.IntN(len(shares))]
				if rnd.IntN(4) == 0 {
					share = nil
				}
				reads = append(reads, q.enter(share))
			case n < 7 && len(reads) > 0:
				if r := reads[rnd.IntN(len(reads))]; r.has {
					if r.dial {
						r.dial, r.reader = false, new(reader)
					}
					q.pause(r)
				}
			case len(reads) > 0:
				i := rnd.IntN(len(reads))
				if r := reads[i]; r.has && rnd.IntN(2) == 0 {
					q.done(r)
				} else {
					q.release(r) // gives up, or could not open its connection
				}
				reads = slices.Delete(reads, i, i+1)
			}
			q.check()
		}
		for _, r := range reads {
			q.release(r)
		}
		if q.free != q.readQueue.slots || q.long != 0 || len(q.idle)+q.closed != q.connections {
			t.Fatalf("seed %d: %d turns are free, %d long, %d connections are here", seed, q.free, q.long, len(q.idle)+q.closed)
		}
		for _, h := range q.waiting {
			if h.Len() > 0 {
				t.Fatalf("seed %d: %d reads wait", seed, h.Len())
			}
		}
	}
}

// Reads that pause at every opportunity, and give up, answer as those that do not.
func TestPausedReads(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{Readers: 2})
	var events []*host.Event
	for i := range 600 {
		events = append(events, fake(i, byte(i%5), host.Kind(1+i%3), int64(i/2), nostr.Tag{"t", fmt.Sprint(i % 7)}))
	}
	put(t, s, 0, events...)
	filters := []host.Filter{
		{Limit: -1}, {Limit: 50, Kinds: []host.Kind{1, 3}},
		{Limit: 40, Tags: []host.TagFilter{{Name: 't', Values: []string{"0", "1", "2", "3", "4"}}}},
		{Limit: -1, Tags: []host.TagFilter{{Name: 't', Values: []string{"5", "6"}}}, Kinds: []host.Kind{2}},
	}
	type answer struct {
		rows  []int64
		count int64
	}
	read := func(ctx context.Context, f host.Filter) (a answer, err error) {
		sel, err := s.Select(ctx, []host.Filter{f}, 0)
		if err != nil {
			return a, err
		}
		a.rows = sel.Rows
		a.count, err = s.Count(ctx, []host.Filter{f}, 0)
		return a, err
	}
	var want []answer
	for _, f := range filters {
		a, err := read(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, a)
	}
	s.queue.slice = 0
	var all sync.WaitGroup
	var shares [3]host.Share
	for i := range 24 {
		all.Go(func() {
			ctx := host.WithShare(t.Context(), &shares[i%len(shares)])
			for n := range 20 {
				which := (i + n) % len(filters)
				ctx, cancel := context.WithCancel(ctx)
				if n%5 == 4 {
					go cancel() // at any moment
				}
				a, err := read(ctx, filters[which])
				cancel()
				if errors.Is(err, context.Canceled) && n%5 == 4 {
					continue
				}
				if err != nil || a.count != want[which].count || !slices.Equal(a.rows, want[which].rows) {
					t.Errorf("filter %d: %d rows, count %d (%v), want %d and %d", which, len(a.rows), a.count, err, len(want[which].rows), want[which].count)
					return
				}
			}
		})
	}
	all.Wait()
	if n := s.queue.busy(); n != 0 {
		t.Errorf("%d turns are not back", n)
	}
}

// Connections that were opened because reads waited close when nobody uses them.
func TestFurtherConnectionsClose(t *testing.T) {
	s := openWith(t, t.TempDir(), Options{Readers: 1})
	s.queue.keep, s.queue.base = time.Millisecond, time.Hour
	long, err := s.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Millisecond) // it has used something
	turn, ready, _ := s.queue.queue(nil)
	again := s.queue.letOthers(long.turn)
	<-ready
	if !turn.dial || again == nil {
		t.Fatal("the read that waits gets no connection of its own")
	}
	other, err := s.takeConnection(turn)
	if err != nil {
		t.Fatal(err)
	}
	s.release(other)
	<-again
	s.release(long)
	for {
		s.queue.mu.Lock()
		idle, closed := slices.Clone(s.queue.idle), s.queue.closed
		s.queue.mu.Unlock()
		if len(idle) == 1 && closed == s.queue.connections-1 && idle[0] == long {
			break
		}
		if len(idle) == 0 {
			t.Fatal("the first connection has closed")
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.use(t.Context(), 0, func(*reader) error { return nil }); err != nil {
		t.Fatal(err)
	}
}
