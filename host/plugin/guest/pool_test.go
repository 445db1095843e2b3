package guest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
)

// blockedFacts answer when release is closed.
type blockedFacts struct {
	*fakeFacts
	reads   chan struct{} // receives for each read
	release chan struct{} // closed to answer
	waits   func(func())
}

func (f *blockedFacts) Get(ctx context.Context, id host.ID) ([]byte, error) {
	f.reads <- struct{}{}
	<-f.release
	return nil, nil
}

func (f *blockedFacts) Asking(string) {}

func (f *blockedFacts) Wait(g func()) { f.waits(g) }

// TestPoolWaits lets more decisions wait for the store than there are processors, and
// one more: it waits for an instance, outside of those who decide. What is more than
// processors need is closed later.
func TestPoolWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustLoad(t, getting(1).assemble(), func(o *Options) { o.Waits, o.Budgets.Time, o.Clock = 3, time.Second, time.Now })
		facts := &blockedFacts{reads: make(chan struct{}, 100), release: make(chan struct{})}
		var mu sync.Mutex
		waiting := 0
		facts.waits = func(f func()) {
			mu.Lock()
			waiting++
			mu.Unlock()
			f()
		}
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				var q Request
				if _, _, err := m.Rule(t.Context(), Admit, q.Admit(item(1, ""), now), facts, now, "client"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if len(facts.reads) != 5 || m.Instances() != 5 || waiting != 1 {
			t.Errorf("%d reads, %d instances, %d wait for one; want 5, 5, 1", len(facts.reads), m.Instances(), waiting)
		}
		close(facts.release)
		all.Wait()
		if m.Instances() != 5 {
			t.Errorf("%d instances, want 5", m.Instances())
		}
		time.Sleep(2 * surplusTime)
		synctest.Wait()
		if m.Instances() != 2 {
			t.Errorf("%d instances after a while, want 2", m.Instances())
		}
	})
}

// TestPoolIsBusy has as many wait for an instance as may, and one more.
func TestPoolIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 1, func(*instance) {}, time.Now)
		if _, err := p.get(t.Context(), atOnce); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range maxQueue {
			all.Go(func() { _, _ = p.get(ctx, atOnce) })
		}
		synctest.Wait()
		if _, err := p.get(ctx, atOnce); err != errBusy {
			t.Errorf("got %v", err)
		}
		cancel()
		all.Wait()
		p.giveUp()
		if _, err := p.get(t.Context(), atOnce); err != nil {
			t.Error(err)
		}
	})
}

// TestPoolWaitEnds ends the wait for an instance by its context.
func TestPoolWaitEnds(t *testing.T) {
	m := mustLoad(t, guest{}.assemble(), func(o *Options) { o.Instances = 1 })
	inst, err := m.pool.get(t.Context(), atOnce)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.pool.get(ctx, atOnce); err == nil {
		t.Error("an instance for two")
	}
	m.pool.put(inst)
	if got := admit(t, m, item(1, "")); got != passes {
		t.Errorf("%+v, want %+v", got, passes)
	}
}
