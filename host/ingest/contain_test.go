package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/bound"
	"talon/host/contain"
)

// panics returns how many panics the pipeline has counted.
func (r *rig) panics() (decisions, effects float64) {
	return testutil.ToFloat64(r.deciding.Collector()), testutil.ToFloat64(r.writing.Collector())
}

// wantAll checks that all events but the one with number bad are stored, and that one is answered
// with an error.
func (r *rig) wantAll(t *testing.T, answers []reply, bad int) {
	t.Helper()
	for n, a := range answers {
		switch {
		case n == bad && !contain.Panicked(a.err):
			t.Errorf("event %d, which makes the host panic: %v %v", n, a.verdict, a.err)
		case n != bad && (a.err != nil || a.verdict.Code != host.Stored):
			t.Errorf("event %d: %v %v", n, a.verdict, a.err)
		}
	}
	if len(r.store.events) != len(answers)-1 {
		t.Errorf("%d events are stored, want %d", len(r.store.events), len(answers)-1)
	}
}

// panickingFacts panic when they are read: at once for the zero id, else after a while.
type panickingFacts struct{ noFacts }

func (panickingFacts) Get(_ context.Context, id host.ID) ([]byte, error) {
	if id != (host.ID{}) {
		time.Sleep(10 * handOff)
	}
	panic("planted")
}

// A policy that panics, at work or while it waits, loses its own event. All others of the same
// source and of other sources are decided about, by as many workers as before.
func TestPanicInDecision(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(facts host.Facts)
	}{
		{"at work", func(host.Facts) { panic("planted") }},
		{"in a wait", func(facts host.Facts) { facts.(host.Waiter).Wait(func() { panic("planted") }) }},
		{"reading a fact", func(facts host.Facts) { _, _ = facts.Get(context.Background(), host.ID{}) }},
		{"reading a slow fact", func(facts host.Facts) { _, _ = facts.Get(context.Background(), host.ID{1}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(_ context.Context, it *host.Item, facts host.Facts) host.Ruling {
					if it.Event.ID == event(3).ID {
						tt.fail(facts)
					}
					return host.Ruling{Action: host.Accept}
				}, func(c *Config) { c.Workers, c.Facts = 2, panickingFacts{} })
				var events []*host.Event
				for n := range 8 {
					events = append(events, event(n))
				}
				r.wantAll(t, r.submit(t, &host.Source{}, events...), 3)
				r.submit(t, &host.Source{}, event(100))
				if s := r.schedule; s.deciding != 0 || s.waiting != 0 || s.returning != 0 {
					t.Errorf("%d workers decide, %d wait and %d return after all is answered", s.deciding, s.waiting, s.returning)
				}
				if n, _ := r.panics(); n != 1 {
					t.Errorf("%v panics are counted", n)
				}
				r.stop()
			})
		})
	}
}

// An event that makes the store panic is refused. The rest of its batch is stored.
func TestPanicInApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		r.store.putFails = func(e *host.Event) error {
			if e.ID == event(3).ID {
				panic("planted")
			}
			return nil
		}
		var events []*host.Event
		for n := range 8 {
			events = append(events, event(n))
		}
		r.wantAll(t, r.submit(t, &host.Source{}, events...), 3)
		if _, n := r.panics(); n < 1 || n > 2 { // in the batch, and then alone
			t.Errorf("%v panics are counted", n)
		}
		r.stop()
		if n := len(r.out.events); n != 7 {
			t.Errorf("%d events are published, want 7", n)
		}
	})
}

// A commit that panics has stored nothing, as far as is known: what is in it is tried again.
func TestPanicInCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		r.store.commitPanics = 1
		if got := r.submit(t, &host.Source{}, event(1))[0]; !contain.Panicked(got.err) {
			t.Errorf("the event whose commit panicked: %v %v", got.verdict, got.err)
		}
		if got := r.submit(t, &host.Source{}, event(1))[0]; got.verdict.Code != host.Stored {
			t.Errorf("the same event again: %v %v", got.verdict, got.err)
		}
		if r.store.open != 0 {
			t.Errorf("%d transactions are open", r.store.open)
		}
		r.stop()
	})
}

// Done and the follower are others' code: their panics concern nobody else, and take nothing back.
func TestPanicInAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		r.out.panics = 1
		err := r.Submit(t.Context(), &host.Item{Event: event(1), Source: &host.Source{}, Done: func(host.Verdict, error) { panic("planted") }})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for n := range 3 {
			if got := r.submit(t, &host.Source{}, event(2+n))[0]; got.verdict.Code != host.Stored {
				t.Errorf("event %d: %v %v", 2+n, got.verdict, got.err)
			}
		}
		if _, n := r.panics(); n != 2 {
			t.Errorf("%v panics are counted, want that of Done and that of the follower", n)
		}
		r.stop()
	})
}

// A sweep that panics is tried again with the next second, and stops nobody.
func TestPanicInSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		expires := event(1)
		expires.Tags = append(expires.Tags, host.Tag{"expiration", "1"})
		r.store.mu.Lock()
		r.store.events[expires.ID] = expires
		r.store.sweepPanics = 2
		r.store.mu.Unlock()
		time.Sleep(5 * sweepEvery)
		synctest.Wait()
		if got := r.submit(t, &host.Source{}, event(2))[0]; got.verdict.Code != host.Stored {
			t.Errorf("an event after the sweep: %v %v", got.verdict, got.err)
		}
		if text, _ := r.store.Get(t.Context(), expires.ID); text != nil {
			t.Error("what has expired is still stored")
		}
		if _, n := r.panics(); n != 2 {
			t.Errorf("%v panics are counted", n)
		}
		r.stop()
	})
}

// After a panic in what the writer remembers of commits, that agrees with the store again.
func TestPanicInMemory(t *testing.T) {
	store := newMemory()
	held := host.HeldEvent{JSON: event(1).JSON}
	p := New(Config{
		Store: store, Log: slog.New(slog.DiscardHandler), Now: time.Now, Workers: 1, Quota: Quota{ByAuthor: 1},
		EachHeld: func(_ context.Context, yield func(host.HeldEvent) error) error { return yield(held) },
	})
	w := &writer{Pipeline: p}
	p.recent.add(event(5).ID)
	w.history.add(change{event: event(5)})
	w.containMemory(func() {
		p.quotas.networks[netip.Prefix{}] = 77 // half of something
		panic("planted")
	})
	if len(p.quotas.networks) != 0 || len(p.quotas.events) != 1 {
		t.Errorf("%d networks and %d events are counted, want those of the store", len(p.quotas.networks), len(p.quotas.events))
	}
	if p.recent.has(event(5).ID) {
		t.Error("ids are remembered that may be wrong")
	}
	before := host.Reads{Stored: []host.Filter{{IDs: []host.ID{event(9).ID}}}}
	if !w.history.stale(&before, 0) {
		t.Error("a decision from before the panic still holds")
	}
	if p.version.Load() != w.history.version {
		t.Errorf("new decisions are of version %d, the history is at %d", p.version.Load(), w.history.version)
	}
}

// A panic in the schedule ends the pipeline: everybody who waits gets an error, and Run returns one.
func TestPanicInSchedule(t *testing.T) {
	until := make(chan struct{})
	p := New(Config{
		Verify: func(*host.Event) error { return nil },
		Policy: policyFunc(func(context.Context, *host.Item, host.Facts) host.Ruling {
			<-until
			return host.Ruling{Action: host.Accept}
		}),
		Store: newMemory(), Facts: newMemory(), Log: slog.New(slog.DiscardHandler), Now: time.Now, Workers: 2, Queue: 10, Batch: 10,
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background(), nil) }()
	answers := make(chan error, 4)
	for n := range 3 {
		err := p.Submit(t.Context(), &host.Item{Event: event(n), Source: &host.Source{}, Done: func(_ host.Verdict, err error) { answers <- err }})
		if err != nil {
			t.Fatal(err)
		}
	}
	release := &host.ReleaseRequest{
		Plan: func(context.Context, host.RepoFacts, int64) (host.Release, error) { return host.Release{}, nil },
		Done: func(_ []host.Released, err error) { answers <- err },
	}
	p.schedule.mu.Lock()
	p.schedule.add(nil, bound.Holder{}, &entry{release: &releaseRequest{ReleaseRequest: release}})
	p.schedule.others.fast.push(&lane{class: p.schedule.others, used: -time.Hour}) // it has no entry
	p.schedule.mu.Unlock()
	close(until)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("Run returns %v", err)
	}
	for range 4 {
		<-answers // each once: stored before the panic, or with the error
	}
	if err := p.Submit(t.Context(), &host.Item{Event: event(9), Source: &host.Source{}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Submit to a pipeline that has ended: %v", err)
	}
}
