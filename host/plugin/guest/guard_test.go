package guest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"talon/host"
)

// TestBusyMachineRefusesNothing reads from a store that takes 200 ms for an answer, while
// the rest of this process is at work.
func TestBusyMachineRefusesNothing(t *testing.T) {
	m := mustLoad(t, getting(5).assemble(), nil)
	var others sync.WaitGroup
	var done atomic.Bool
	for range max(1, runtime.GOMAXPROCS(0)-1) {
		others.Go(func() {
			for !done.Load() {
			}
		})
	}
	facts := &parkedFacts{fakeFacts: &fakeFacts{}, took: 200 * time.Millisecond}
	begun := time.Now()
	_, err := ask(t, m, item(1, ""), facts)
	took := time.Since(begun)
	done.Store(true)
	others.Wait()
	if took > defaultTime {
		t.Skipf("the machine paused: five reads of 200 ms took %v", took)
	}
	if err != nil || facts.waits != 5 {
		t.Errorf("%v after %d reads, want 5 reads and no failure", err, facts.waits)
	}
}

// TestHangingReadEndsTheCall reads from a store that answers only when its context ends. A
// side-car may choose the time.
func TestHangingReadEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []time.Duration{0, 50 * time.Millisecond} {
			m := mustLoad(t, getting(64).assemble(), func(o *Options) { o.Budgets.Time = limit })
			if limit == 0 {
				limit = defaultTime
			}
			for name, facts := range map[string]host.Facts{"hangs": stuckFacts{}, "hangs, and waits for its turn": &stuckAndParked{}} {
				begun := time.Now()
				_, err := ask(t, m, item(1, ""), facts)
				if f := AsFailure(err); f == nil || f.Cause != CauseTime {
					t.Errorf("%s: %v, want a failure by %s", name, err, CauseTime)
				}
				took := time.Since(begun)
				if parked, ok := facts.(*stuckAndParked); ok {
					took -= parked.parked
				}
				if took != limit {
					t.Errorf("%s: the call took %v, want %v", name, took, limit)
				}
			}
		}
	})
}

// TestGuardIsForTheReadsOfACall checks that reads share the guard, that the next call has
// all of it, and that a wait for a worker does not count.
func TestGuardIsForTheReadsOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustLoad(t, getting(10).assemble(), nil)
		for _, test := range []struct {
			took, parked time.Duration
			want         Cause
		}{
			{took: defaultTime/10 - time.Millisecond},
			{took: defaultTime/10 - time.Millisecond, parked: time.Minute},
			{took: defaultTime/10 - time.Millisecond},
			{took: defaultTime/9 + time.Millisecond, want: CauseTime},
		} {
			facts := &parkedFacts{fakeFacts: &fakeFacts{}, took: test.took, parked: test.parked}
			_, err := ask(t, m, item(1, ""), facts)
			if f := AsFailure(err); f == nil && (err != nil || test.want != "") || f != nil && f.Cause != test.want {
				t.Errorf("ten reads of %v, each with %v for a turn: %v, want %q", test.took, test.parked, err, test.want)
			}
		}
	})
}

// TestEndedCallerIsNoFailure checks that a read that the caller ends is no failure of the module.
func TestEndedCallerIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mustLoad(t, getting(1).assemble(), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var r Request
		if _, _, err := m.Rule(ctx, Admit, r.Admit(item(1, ""), now), stuckFacts{}, now, "client"); err == nil || AsFailure(err) != nil {
			t.Errorf("%v, want the error of the store", err)
		}
	})
}

// parkedFacts are those of a decision that waits for its turn after each read.
type parkedFacts struct {
	*fakeFacts
	took, parked time.Duration
	waits        int
}

func (f *parkedFacts) Get(ctx context.Context, id host.ID) ([]byte, error) {
	f.wait()
	return f.fakeFacts.Get(ctx, id)
}

func (f *parkedFacts) Query(ctx context.Context, filter host.Filter) ([][]byte, error) {
	f.wait()
	return f.fakeFacts.Query(ctx, filter)
}

func (f *parkedFacts) wait() {
	time.Sleep(f.took)
	if f.parked > 0 {
		time.Sleep(f.parked)
	}
	f.waits++
}

func (f *parkedFacts) QueueTime() time.Duration { return time.Duration(f.waits) * f.parked }

// stuckFacts hang until their caller ends.
type stuckFacts struct{ host.Facts }

func (stuckFacts) Get(ctx context.Context, _ host.ID) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// stuckAndParked hang, and then the decision waits for its turn.
type stuckAndParked struct {
	stuckFacts
	parked time.Duration
}

func (f *stuckAndParked) Get(ctx context.Context, id host.ID) ([]byte, error) {
	text, err := f.stuckFacts.Get(ctx, id)
	time.Sleep(time.Minute)
	f.parked += time.Minute
	return text, err
}

func (f *stuckAndParked) QueueTime() time.Duration { return f.parked }
