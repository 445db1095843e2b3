package ingest

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/bound"
)

// A decision that takes long delays its own source and nobody else, whether it works
// or waits for a fact.
func TestSlowDecisionDelaysItsSource(t *testing.T) {
	for _, tt := range []struct {
		name    string
		workers int
		block   func(facts host.Facts, until <-chan struct{})
	}{
		{"it works", 2, func(_ host.Facts, until <-chan struct{}) { <-until }},
		{"it waits", 1, func(facts host.Facts, until <-chan struct{}) { facts.(host.Waiter).Wait(func() { <-until }) }},
		{"its read hangs", 1, func(facts host.Facts, _ <-chan struct{}) { facts.Get(context.Background(), event(1).ID) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := make(chan struct{})
				r := start(t, func(_ context.Context, it *host.Item, facts host.Facts) host.Ruling {
					if it.Event.ID == event(1).ID {
						tt.block(facts, until)
					}
					return host.Ruling{Action: host.Accept}
				}, func(c *Config) { c.Workers, c.Facts = tt.workers, &hangingFacts{c.Facts, until} })
				slow, source := make(chan reply, 20), &host.Source{}
				for n := range 20 {
					r.send(t, source, slow, event(1+n))
				}
				synctest.Wait()
				for n := range 20 {
					if got := r.submit(t, &host.Source{}, event(100+n))[0]; got.verdict.Code != host.Stored {
						t.Errorf("event %d of another source: %v %v", n, got.verdict, got.err)
					}
				}
				synctest.Wait()
				if n := len(slow); n > 0 {
					t.Errorf("%d events took effect before one that was sent earlier", n)
				}
				close(until)
				synctest.Wait()
				if n := len(slow); n != 20 {
					t.Errorf("%d of 20 events were answered", n)
				}
				r.stop()
			})
		})
	}
}

// hangingFacts hang when an event is read, until a channel is closed.
type hangingFacts struct {
	host.Facts
	until <-chan struct{}
}

func (f *hangingFacts) Get(ctx context.Context, id host.ID) ([]byte, error) {
	<-f.until
	return f.Facts.Get(ctx, id)
}

// However many sources decide slowly, one whose decisions are quick is served.
func TestManySlowSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(_ context.Context, it *host.Item, facts host.Facts) host.Ruling {
			if it.Event.Kind == 7 {
				facts.(host.Waiter).Wait(func() { time.Sleep(50 * time.Millisecond) })
			}
			return host.Ruling{Action: host.Accept}
		}, func(c *Config) { c.Workers = 2 })
		var flood sync.WaitGroup
		done := make(chan struct{})
		for client := range 100 {
			flood.Go(func() {
				source := &host.Source{}
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					e := event(10_000*(client+1) + n)
					e.Kind = 7
					r.submit(t, source, e)
				}
			})
		}
		time.Sleep(time.Second)
		quick := &host.Source{}
		for n := range 100 {
			began := time.Now()
			r.submit(t, quick, event(n))
			if took := time.Since(began); took > 20*time.Millisecond {
				t.Errorf("event %d of a quick source took %v", n, took)
			}
		}
		close(done)
		flood.Wait()
		r.stop()
	})
}

// TestIdleSourceIsNext checks that a source that was idle does not wait for busy ones to use up
// their lag. Decisions take longer than was reserved while lanes are queued.
func TestIdleSourceIsNext(t *testing.T) {
	s := newSchedule(2, newMetrics())
	quiet, send := &host.Source{}, func(source *host.Source) *entry {
		e := &entry{item: &host.Item{Source: source}}
		s.add(source, bound.Holder{Addr: source.Addr}, e)
		return e
	}
	for range 8 {
		source := &host.Source{}
		for range 4 {
			send(source)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	decide := func(e *entry) {
		took := 100 * time.Microsecond
		if e.item.Source != quiet && random.IntN(30) == 0 {
			took = 20 * time.Millisecond // the worker waited for a processor
		}
		s.done(e, took)
		for _, e := range s.appendReady(nil) {
			for ; e != nil; e = s.pop(e, 0) {
				if e.item.Source != quiet {
					send(e.item.Source)
				}
			}
		}
	}
	under := s.dequeue()
	next := func() *entry {
		e := s.dequeue()
		decide(under)
		under = e
		return e
	}
	for round := range 1000 {
		mine := send(quiet)
		for before := 0; next() != mine; before++ {
			if before == 1 {
				t.Fatalf("round %d: more than one decision of others came first", round)
			}
		}
		for range 1 + random.IntN(20) {
			next()
		}
	}
}

// However many sources wait for a module that hangs, those that wait for another one are
// served, and those that wait for none.
func TestModulesWaitApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := make(chan struct{})
		hang := func() {
			select {
			case <-until:
			case <-time.After(time.Minute):
			}
		}
		r := start(t, func(_ context.Context, it *host.Item, facts host.Facts) host.Ruling {
			w := facts.(host.Waiter)
			if w.Asking("hangs"); it.Event.Kind == 7 {
				w.Wait(hang)
			}
			if w.Asking("slow"); it.Event.Kind == 6 {
				w.Wait(func() { time.Sleep(20 * time.Millisecond) })
			}
			return host.Ruling{Action: host.Accept}
		}, func(c *Config) { c.Workers = 2 })
		const sources = 200
		var attackers []*host.Source
		hung := make(chan reply, 2*sources)
		attack := func(round int) {
			for n, source := range attackers {
				e := event(10_000*round + n)
				e.Kind = 7
				r.send(t, source, hung, e)
			}
			synctest.Wait()
		}
		for range sources {
			attackers = append(attackers, &host.Source{})
		}
		waiting := func(module string, n int) {
			t.Helper()
			if got := testutil.ToFloat64(r.metrics.waiting.WithLabelValues(module)); got != float64(n) {
				t.Errorf("%v decisions wait for %q, want %d", got, module, n)
			}
		}
		// They are new, then known to be slow.
		for round, hangs := range []int{sources, maxSlow - maxSlowKnown} {
			attack(1 + round)
			waiting("hangs", hangs)
			slow, quick := &host.Source{}, &host.Source{}
			for n := range 50 {
				began := time.Now()
				r.submit(t, quick, event(1000*round+n))
				if took := time.Since(began); took > 0 {
					t.Errorf("event %d that no module is slow about took %v", n, took)
				}
				e := event(1000*round + 500 + n)
				e.Kind = 6
				began = time.Now()
				r.submit(t, slow, e)
				if took := time.Since(began); took > 20*time.Millisecond {
					t.Errorf("event %d of another module took %v", n, took)
				}
			}
			if n := len(hung); n != round*sources {
				t.Errorf("%d decisions that hang have ended", n)
			}
			close(until)
			synctest.Wait()
			until = make(chan struct{})
		}
		waiting("hangs", 0)
		waiting("slow", 0)
		time.Sleep(2 * idleLanes)
		if n := testutil.CollectAndCount(r.metrics.waiting); n > 0 {
			t.Errorf("%d modules are remembered", n)
		}
		r.stop()
	})
}

// Decisions that all read what all write come to an end, and are made twice, not again at
// each commit.
func TestContendedDecisionsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := host.Filter{Limit: 1}
		r := start(t, func(ctx context.Context, _ *host.Item, facts host.Facts) host.Ruling {
			if _, err := facts.Query(ctx, all); err != nil {
				t.Error(err)
			}
			return host.Ruling{Action: host.Accept}
		}, nil)
		const clients, each = 8, 100
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				var events []*host.Event
				for i := range each {
					events = append(events, event(c*1000+i))
				}
				for _, got := range r.submit(t, &host.Source{}, events...) {
					if got.verdict.Code != host.Stored {
						t.Errorf("%v %v", got.verdict, got.err)
					}
				}
			})
		}
		wg.Wait()
		if n := testutil.ToFloat64(r.metrics.redecided); n > 2*clients*each {
			t.Errorf("%v decisions were made again for %d events", n, clients*each)
		}
		r.stop()
	})
}

// An event whose facts change during every one of its decisions is refused in the end:
// nobody waits for it for long.
func TestHopelessDecisionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		n := 100
		all := host.Filter{Limit: -1}
		r = start(t, func(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
			if it.Event.ID != event(1).ID {
				return host.Ruling{Action: host.Accept}
			}
			if _, err := facts.Query(ctx, all); err != nil {
				t.Error(err)
			}
			facts.(host.Waiter).Wait(func() {
				n++
				r.submit(t, &host.Source{}, event(n))
			})
			return host.Ruling{Action: host.Accept}
		}, nil)
		began := time.Now()
		got := r.submit(t, &host.Source{}, event(1))[0]
		if got.verdict.Code != host.Busy || !strings.HasPrefix(got.verdict.Reason, "error: ") || got.err != nil {
			t.Errorf("got %v %v", got.verdict, got.err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got := testutil.ToFloat64(r.metrics.exclusive.WithLabelValues("timeout")); got == 0 || n-100 > maxRetries+1 {
			t.Errorf("%v turns were exclusive, %d decisions were made", got, n-100)
		}
		r.stop()
	})
}

// After a commit that failed, what rests on it is decided again. If that takes long, nobody
// else waits for it.
func TestFailedBatchDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, until := make(chan struct{}), make(chan struct{})
		decisions := 0
		r := start(t, func(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
			switch it.Event.ID {
			case event(1).ID:
				<-first
			case event(2).ID:
				if decisions++; decisions == 3 {
					facts.(host.Waiter).Wait(func() { <-until })
				}
			}
			return needsParent(ctx, it, facts)
		}, func(c *Config) { c.Store = slowDisk{c.Store.(*memory)} })
		r.submit(t, &host.Source{}, event(10)) // a batch stays open for as long as a commit takes
		r.store.preFails = 1
		source := &host.Source{}
		child, replies := make(chan reply, 1), make(chan reply, 1)
		r.send(t, source, replies, event(1))
		r.send(t, source, child, replyTo(2, 1))
		synctest.Wait()
		began := time.Now()
		close(first)
		if got := <-replies; got.verdict.Code != host.Stored {
			t.Errorf("the first: %v", got)
		}
		if got := r.submit(t, &host.Source{}, event(3))[0]; got.verdict.Code != host.Stored {
			t.Errorf("another's: %v", got)
		}
		if took := time.Since(began); took > maxFailTime+5*diskTime {
			t.Errorf("another waited %v", took)
		}
		if got := <-child; got.verdict != tooFast {
			t.Errorf("what takes long: %v", got)
		}
		if decisions != 3 {
			t.Fatalf("%d decisions were made about it, want 3: the commit did not fail beside it", decisions)
		}
		close(until)
		if got := r.submit(t, source, replyTo(4, 1))[0]; got.verdict.Code != host.Stored {
			t.Errorf("the next of its source: %v %v", got.verdict, got.err)
		}
		r.stop()
	})
}

// TestHoldMeetsArrival checks that an event is not held for git data that came during its decision.
func TestHoldMeetsArrival(t *testing.T) {
	deciding, goOn := make(chan struct{}), make(chan struct{})
	var here atomic.Bool
	var once sync.Once
	r := start(t, func(context.Context, *host.Item, host.Facts) host.Ruling {
		if here.Load() {
			return host.Ruling{Action: host.Accept}
		}
		once.Do(func() { close(deciding); <-goOn })
		return host.Ruling{Action: host.Hold}
	}, nil)
	answer := make(chan reply, 1)
	r.send(t, &host.Source{}, answer, event(1))
	<-deciding
	here.Store(true)
	got := r.arrive(t, func(ctx context.Context, facts host.RepoFacts, _ int64) (host.Release, error) {
		texts, err := facts.HeldBy(ctx, host.Filter{Limit: -1})
		if len(texts) > 0 {
			t.Error("the event is held already")
		}
		return host.Release{}, err
	})
	if got.err != nil {
		t.Fatal(got.err)
	}
	close(goOn)
	if got := <-answer; got.verdict.Code != host.Stored {
		t.Errorf("got %v", got)
	}
}

// slowDisk is a store whose commits take long.
type slowDisk struct{ *memory }

const diskTime = 40 * time.Millisecond

func (s slowDisk) Begin() (Tx, error) {
	tx, err := s.memory.Begin()
	return slowTx{tx}, err
}

type slowTx struct{ Tx }

func (tx slowTx) Commit() error {
	time.Sleep(diskTime) // in the time of the bubble
	return tx.Tx.Commit()
}

// TestCommitDoesNotWaitForRefusals publishes during a flood of refused events. The publisher waits
// for its own commit, and not for the decisions about the flood.
func TestCommitDoesNotWaitForRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
			if it.Event.Kind == 7 {
				time.Sleep(time.Millisecond)
				return host.Ruling{Action: host.Reject, Reason: "blocked: no"}
			}
			return host.Ruling{Action: host.Accept}
		}, func(c *Config) { c.Workers, c.Store = 2, slowDisk{c.Store.(*memory)} })
		var flood sync.WaitGroup
		done := make(chan struct{})
		for client := range 8 {
			flood.Go(func() {
				source := &host.Source{}
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					default:
					}
					var events []*host.Event
					for i := range 16 {
						e := event(100_000*(client+1) + 16*n + i)
						e.Kind = 7
						events = append(events, e)
					}
					r.submit(t, source, events...)
				}
			})
		}
		mine := &host.Source{}
		for n := range 40 {
			began := time.Now()
			r.submit(t, mine, event(n))
			if took := time.Since(began); took > diskTime+5*time.Millisecond {
				t.Errorf("event %d took %v", n, took)
			}
		}
		close(done)
		flood.Wait()
		r.stop()
	})
}

// TestLoneEventIsCommittedAtOnce checks that a lone publisher waits only for the commit of its
// event.
func TestLoneEventIsCommittedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, func(c *Config) { c.Store = slowDisk{c.Store.(*memory)} })
		source := &host.Source{}
		for n := range 100 {
			began := time.Now()
			r.submit(t, source, event(n))
			if took := time.Since(began); took != diskTime {
				t.Fatalf("event %d took %v", n, took)
			}
		}
		r.stop()
	})
}

// TestCostlyEventsDelayTheirSource has floods of events that take long to store. Others wait for
// few of these, and not for a batch of them, nor for one of each connection of a network.
func TestCostlyEventsDelayTheirSource(t *testing.T) {
	const cost = 4 * time.Millisecond
	for name, connections := range map[string]int{"one connection": 1, "a network": 24} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, acceptAll, func(c *Config) {
					c.Batch = 512
					c.Store.(*memory).putFails = func(e *host.Event) error {
						if e.Kind == 7 {
							time.Sleep(cost)
						}
						return nil
					}
				})
				ctx, cancel := context.WithCancel(t.Context())
				var flood sync.WaitGroup
				for client := range connections {
					flood.Go(func() {
						source := &host.Source{Origin: host.FromClient, Addr: netip.MustParseAddr("203.0.113.1")}
						room := make(chan struct{}, 128)
						for n := 0; ctx.Err() == nil; n++ {
							room <- struct{}{}
							e := event(100_000*(client+1) + n)
							e.Kind = 7
							_ = r.Submit(ctx, &host.Item{Event: e, Source: source, Done: func(host.Verdict, error) { <-room }})
						}
					})
				}
				time.Sleep(time.Second)
				mine := &host.Source{Origin: host.FromClient, Addr: netip.MustParseAddr("192.0.2.1")}
				for n := range 100 {
					began := time.Now()
					r.submit(t, mine, event(n))
					// The turn that has begun, and the batch that is open.
					if took := time.Since(began); took > turnTime+batchTime+2*cost {
						t.Errorf("event %d took %v", n, took)
					}
					time.Sleep(7 * time.Millisecond)
				}
				cancel()
				r.stop()
				flood.Wait()
			})
		})
	}
}
