package guest

import (
	"context"
	"sync"
	"time"

	"talon/host"
)

// stopwatch counts the time of one call against its budget. What a pause of the
// machine takes, or other programs, does not count, as far as it can be told: code
// counts for no longer than its fuel can have taken, and reads are counted by a timer
// that says how often it has rung, not when.
type stopwatch struct {
	most  time.Duration // 0: no budget
	spent time.Duration
	since time.Time // of the clock, when the guest went on
	fuel  int64     // that it had then
}

const (
	// slowestFuel is how long code may take for one unit of fuel, on any machine.
	slowestFuel = 20 * time.Nanosecond

	// readSlices is into how many parts the timer of a read divides what is left.
	readSlices = 16
)

// Slowest returns the longest that code can have taken for so much fuel. What has
// passed beyond that, others have taken.
func Slowest(fuel int64) time.Duration { return time.Duration(fuel) * slowestFuel }

// resume notes that the guest goes on.
func (c *call) resume() {
	if c.clock.most > 0 && c.inst.fuel != nil {
		c.clock.since, c.clock.fuel = c.inst.module.clock(), int64(c.inst.fuel.Get())
	}
}

// lap counts the time since the guest went on, and ends its call if there is none
// left.
func (c *call) lap() {
	if c.count(); c.clock.over() {
		panic(errTime)
	}
}

// count counts the time since the guest went on.
func (c *call) count() {
	w := &c.clock
	if w.most == 0 || c.inst.fuel == nil {
		return
	}
	at, fuel := c.inst.module.clock(), int64(c.inst.fuel.Get())
	w.spent += max(min(at.Sub(w.since), Slowest(w.fuel-fuel)), 0)
	w.since, w.fuel = at, fuel
}

// over reports whether nothing is left.
func (w *stopwatch) over() bool { return w.most > 0 && w.spent >= w.most }

// read runs f with a context that ends when nothing is left, and counts its time. What
// the facts say that the decision waited for its turn does not count.
func (w *stopwatch) read(ctx context.Context, facts host.Facts, f func(context.Context) error) error {
	if w.most == 0 {
		return f(ctx)
	}
	parked, _ := facts.(host.Parked)
	var before time.Duration
	if parked != nil {
		before = parked.Parked()
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := ringing{slice: max((w.most-w.spent)/readSlices, time.Millisecond), left: w.most - w.spent, over: cancel}
	begun := time.Now()
	t.start()
	err := f(bounded)
	rung := t.stop()
	took := min(time.Since(begun), rung+t.slice)
	if context.Cause(bounded) == errTime {
		took = t.left
	}
	if parked != nil {
		took -= min(parked.Parked()-before, took)
	}
	w.spent += took
	return err
}

// ringing is the timer of one read.
type ringing struct {
	slice, left time.Duration
	over        context.CancelCauseFunc

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	rung  time.Duration
}

func (t *ringing) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.slice, t.ring)
}

func (t *ringing) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rung += t.slice; t.rung >= t.left {
		t.over(errTime)
		return
	}
	t.timer.Reset(t.slice)
}

// stop ends the timer and returns what it has counted.
func (t *ringing) stop() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	return t.rung
}
