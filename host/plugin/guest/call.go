package guest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"talon/host"
)

// call is the call into a guest that is under way. It is the context that
// wazero hands to host functions, so that they find what belongs to this call
// without a look-up and without an allocation: a host function asserts its
// context back to a *call.
//
// The embedded context is the caller's, and only for the time of the call.
type call struct {
	context.Context

	inst   *instance
	bound  context.Context // of the instance; see Done
	making context.Context // while the instance is made; see Value

	facts  host.Facts
	waiter host.Waiter // the facts, if they are one
	now    int64       // unix seconds
	line   []byte      // unfinished line of fd_write
	clock  stopwatch
	used
}

// used is what has been used of the limits of one call, and what came of it.
type used struct {
	asked      bool // the host, for more than WASI has
	hostCalls  int
	reads      int
	bytes      int
	randomness int // bytes given out
	logLines   int
	firstLine  string // of what was logged, to explain a failure

	unfit *unfitAnswer // whose size the guest has got; nil: none
	err   error        // why the host could not answer
}

// Done and Err tell wazero when to stop the guest, if the engine looks: when the
// context of the instance is done. It may ask at any time, from a goroutine of
// its own, so that the caller's context, which changes, is none of its business.

func (c *call) Done() <-chan struct{} { return c.bound.Done() }
func (c *call) Err() error            { return c.bound.Err() }

// Value tells wazero what a context may ask of it. It looks at each call, and finds only
// what was set for the time in which the instance is made: the caller's contexts, of which
// there may be many, are not walked through.
func (c *call) Value(key any) any {
	if c.making == nil {
		return nil
	}
	return c.making.Value(key)
}

// begin starts a call that may take this long, which is bounded by its fuel alone if
// it is zero.
func (c *call) begin(ctx context.Context, facts host.Facts, now int64, limit time.Duration) {
	c.Context, c.facts, c.now, c.line, c.used = ctx, facts, now, c.line[:0], used{}
	c.waiter, _ = facts.(host.Waiter)
	c.clock = stopwatch{max: limit, cpu: c.inst.module.cpu}
}

func (c *call) end() {
	if len(c.line) > 0 {
		c.log(infoLevel, string(c.line))
	}
	c.Context, c.facts, c.waiter, c.unfit = context.Background(), nil, nil, nil
}

// timedCalls is how many host functions are called between two looks at the clock.
const timedCalls = 16

// enter counts a call of a host function that costs this much fuel, and ends the
// guest's call when there are too many.
func (c *call) enter(fuel int64) {
	if c.hostCalls++; c.hostCalls > c.inst.module.budgets.HostCalls {
		panic(errHostCalls)
	}
	c.charge(fuel)
	if c.hostCalls%timedCalls == 0 {
		c.lap()
	}
}

// fuelLeft returns what the guest has, nothing while its start section runs.
func (c *call) fuelLeft() int64 {
	if c.inst.fuel == nil {
		return 0
	}
	return int64(c.inst.fuel.Get())
}

// charge takes fuel from the guest for what the host does.
func (c *call) charge(fuel int64) {
	if c.inst.fuel == nil {
		return // the start section runs
	}
	left := int64(c.inst.fuel.Get()) - fuel
	c.inst.fuel.Set(uint64(left))
	if left < 0 {
		panic(errFuel)
	}
}

// chargeBytes counts bytes that a host function moves, and takes fuel for them.
func (c *call) chargeBytes(n int) {
	if c.bytes += n; c.bytes > c.inst.module.budgets.Bytes {
		panic(errBytes)
	}
	c.charge(int64(n) / bytesPerFuel)
}

// read does one read for a guest that may wait for a disk, within the time that the
// call has left. A failure of the host is kept for the caller of the guest; the guest
// gets Unavailable. What is read of facts waits by itself, if they are a
// [host.Waiter].
func (c *call) read(what string, f func(ctx context.Context) error) bool {
	c.countRead()
	c.lap()
	err := c.clock.read(c.Context, c.facts, f)
	c.resume(c.fuelLeft())
	if err != nil && c.clock.over() {
		panic(errTime)
	}
	if err != nil {
		c.unavailable(fmt.Errorf("%s: %w", what, err))
	}
	return err == nil
}

// countRead counts a read, and ends the guest's call when there are too many.
func (c *call) countRead() {
	if c.reads++; c.reads > c.inst.module.budgets.Reads {
		panic(errReads)
	}
}

// wait runs f, which may block, without counting the caller among those who decide.
func (c *call) wait(f func()) {
	if c.waiter != nil {
		c.waiter.Wait(f)
		return
	}
	f()
}

// unavailable keeps the first reason why the host could not answer.
func (c *call) unavailable(err error) { c.err = cmpErr(c.err, err) }

// cmpErr returns the first error.
func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// log writes a line of the guest, if it has not written too much. The first line of a call
// is kept in any case, to explain a failure.
func (c *call) log(level int32, text string) {
	m := c.inst.module
	c.logLines++
	dropped := c.logLines > m.budgets.LogLines || !m.logRate.allow()
	if dropped {
		m.metrics.logDropped.Inc()
		if c.firstLine != "" {
			return
		}
	}
	text = strings.ToValidUTF8(truncate(text, m.limits.LogLineBytes), "\uFFFD")
	if c.firstLine == "" {
		c.firstLine = text
	}
	if !dropped {
		m.log.Log(context.Background(), slogLevel(level), "plugin says", "module", m.name, "text", text)
	}
}

// truncate shortens s to at most n bytes, not within a rune.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// stopwatch counts the time of one call against its budget. What a pause of the
// machine takes, or other programs, does not count, as far as that can be measured:
// code counts for no longer than its fuel can have taken, and reads are counted by a
// timer that says how often it has rung, not when. Before a call is found to have taken
// too long, the time in which this process had no processor is taken off: a read cannot
// have used it. It counts as a wait for a disk does.
type stopwatch struct {
	max   time.Duration // 0: no budget
	spent time.Duration
	start time.Duration // when the guest begins, if that is known
	begun time.Duration // of Module.elapsed, when the guest began
	since time.Duration // when it went on, or was last seen
	fuel  int64         // that it had then
	ran   bool          // begun is set

	cpu     func() time.Duration // processor time of this process
	reading bool                 // the fields below are set
	before  time.Duration        // spent before the first read
	cpuThen time.Duration        // of cpu
	ended   bool                 // by a read that took too long
}

const (
	// slowestFuel is how long code may take for one unit of fuel, on any machine.
	slowestFuel = 20 * time.Nanosecond

	// readSlices is into how many parts the timer of a read divides what is left.
	readSlices = 16

	// waitsPerTime is how long a call may wait for a disk, or for a processor that other
	// programs have, for each unit of its budget.
	waitsPerTime = 20
)

// Slowest returns the longest that code can have taken for so much fuel. What has
// passed beyond that, others have taken.
func Slowest(fuel int64) time.Duration { return time.Duration(fuel) * slowestFuel }

// resume notes that the guest goes on, with this much fuel.
func (c *call) resume(fuel int64) {
	w := &c.clock
	if w.max == 0 {
		return
	}
	if w.start != 0 {
		w.since, w.start = w.start, 0
	} else {
		w.since = c.inst.module.elapsed()
	}
	w.fuel = fuel
	if !w.ran {
		w.begun, w.ran = w.since, true
	}
}

// lap counts the time since the guest went on, and ends its call if there is none
// left.
func (c *call) lap() {
	if c.count(c.fuelLeft()); c.clock.over() {
		panic(errTime)
	}
}

// count counts the time since the guest went on, which has this much fuel left.
func (c *call) count(fuel int64) {
	w := &c.clock
	if w.max == 0 {
		return
	}
	at := c.inst.module.elapsed()
	w.spent += max(min(at-w.since, Slowest(w.fuel-fuel)), 0)
	w.since, w.fuel = at, fuel
}

// over reports whether nothing is left.
func (w *stopwatch) over() bool { return w.ended || w.exceeds(w.spent, w.max) }

// exceeds reports whether a call that has taken so long has used up a budget.
func (w *stopwatch) exceeds(spent, budget time.Duration) bool {
	return w.max > 0 && spent >= budget && w.charged(spent) >= budget
}

// charged returns what counts of the time that a call has taken.
func (w *stopwatch) charged(spent time.Duration) time.Duration {
	if !w.reading {
		return spent
	}
	waited := max(spent-w.before-(w.cpu()-w.cpuThen), 0)
	return spent - waited + waited/waitsPerTime
}

// read runs f with a context that ends when nothing is left, and counts its time. What
// the facts say that the decision waited for its turn does not count.
func (w *stopwatch) read(ctx context.Context, facts host.Facts, f func(context.Context) error) error {
	if w.max == 0 {
		return f(ctx)
	}
	parked, _ := facts.(host.Parked)
	var before time.Duration
	if parked != nil {
		before = parked.Parked()
	}
	if !w.reading {
		w.reading, w.before, w.cpuThen = true, w.spent, w.cpu()
	}
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := ringing{slice: max((w.max-w.spent)/readSlices, time.Millisecond), over: func(rung time.Duration) bool {
		if !w.exceeds(w.spent+rung, w.max) {
			return false
		}
		cancel(errTime)
		return true
	}}
	begun := time.Now()
	t.start()
	err := f(bounded)
	rung := t.stop()
	took := min(time.Since(begun), rung+t.slice)
	switch {
	case err != nil && context.Cause(bounded) == errTime:
		w.ended = true // nothing was read in it, whatever the decision waited for then
	case parked != nil:
		took -= min(parked.Parked()-before, took)
	}
	w.spent += took
	return err
}

// ringing is the timer of one read.
type ringing struct {
	slice time.Duration
	over  func(rung time.Duration) bool // ends the read if it has taken too long

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	rung    time.Duration
	stopped bool // what rings now came too late
}

func (t *ringing) start() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(t.slice, t.ring)
}

func (t *ringing) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	if t.rung += t.slice; !t.over(t.rung) {
		t.timer.Reset(t.slice)
	}
}

// stop ends the timer and returns what it has counted.
func (t *ringing) stop() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
	t.stopped = true
	return t.rung
}

// processorTime is what this process has used of processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
