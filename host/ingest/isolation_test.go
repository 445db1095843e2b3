package ingest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				until := make(chan struct{})
				r := start(t, func(_ context.Context, it *host.Item, facts host.Facts) host.Ruling {
					if it.Event.ID == event(1).ID {
						tt.block(facts, until)
					}
					return host.Ruling{Action: host.Accept}
				}, func(c *Config) { c.Workers = tt.workers })
				var slow atomic.Int32
				source := &host.Source{}
				for n := range 20 {
					err := r.Submit(t.Context(), &host.Item{Event: event(1 + n), Source: source, Done: func(host.Verdict, error) { slow.Add(1) }})
					if err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				for n := range 20 {
					if got := r.submit(t, &host.Source{}, event(100+n))[0]; got.verdict.Code != host.Stored {
						t.Errorf("event %d of another source: %v %v", n, got.verdict, got.err)
					}
				}
				synctest.Wait()
				if n := slow.Load(); n > 0 {
					t.Errorf("%d events took effect before one that was sent earlier", n)
				}
				close(until)
				synctest.Wait()
				if n := slow.Load(); n != 20 {
					t.Errorf("%d of 20 events were answered", n)
				}
				r.stop()
			})
		})
	}
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

// Decisions that all read what all write are made twice, not again at each commit.
func TestContendedDecisionsAreFew(t *testing.T) {
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

// An event that was to wait for git data does not, if the data came during its
// decision.
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
	answer := make(chan host.Verdict, 1)
	err := r.Submit(t.Context(), &host.Item{Event: event(1), Source: &host.Source{}, Done: func(v host.Verdict, _ error) { answer <- v }})
	if err != nil {
		t.Fatal(err)
	}
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
	if v := <-answer; v.Code != host.Stored {
		t.Errorf("got %v", v)
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

// Who publishes beside a flood of events that are refused waits for its own commit, and
// not for what is being decided of the flood.
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
