package gitrepo

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"talon/host/bound"
)

// Task is the work of git for one request. Its methods may be called by many goroutines.
type Task struct {
	scheduler              *Scheduler
	class                  *class
	by                     bound.Holder
	network, neighbourhood netip.Prefix
	ctx                    context.Context // of the one request that it is for
	cancel                 context.CancelCauseFunc

	// Guarded by the lock of the scheduler:
	place        *bound.Hold
	number       uint64 // in the order of Reserve
	narrow, wide *usage
	state        taskState
	idle         bool      // its client has not sent or read for long
	awaits       uint64    // counts Await
	since        time.Time // when it got its slot
	slot         chan struct{}
	paused       *bound.Hold // while others have its slot
	pausedSince  time.Time
	pausedTime   time.Duration // in all
	process      child         // nil for none
}

type taskState uint8

const (
	taskIdle taskState = iota // it neither has a slot nor waits for one
	taskWaiting
	taskWorking
	taskEnded
)

// child is what a task pauses.
type child interface {
	pause()
	resume()
	lower(nice int)
}

// Context returns the context of the task. It ends with that of Reserve, with the task, and
// with ErrDisplaced when others need its place.
func (t *Task) Context() context.Context { return t.ctx }

// Start waits for the first slot. It fails with ErrBusy if that takes too long.
func (t *Task) Start() error {
	var late <-chan time.Time
	if limit := t.class.limits.Wait; limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	return t.acquire(late)
}

// acquire waits for a slot, if the task has none.
func (t *Task) acquire(late <-chan time.Time) error {
	t.scheduler.mu.Lock()
	if t.state == taskIdle {
		t.wait()
		t.scheduler.schedule(t.class)
	}
	slot := t.slot
	t.scheduler.mu.Unlock()
	select {
	case <-slot:
		return nil
	default:
	}
	select {
	case <-slot:
		return nil
	case <-late:
		return ErrBusy
	case <-t.ctx.Done():
		return context.Cause(t.ctx)
	}
}

// wait adds the task to those that wait. REQUIRES: the lock of the scheduler.
func (t *Task) wait() {
	t.state, t.slot = taskWaiting, make(chan struct{})
	t.class.waiting = append(t.class.waiting, t)
	if t.paused != nil {
		t.narrow.stopped++
		t.wide.stopped++
	}
}

// stopWaiting takes the task from those that wait. REQUIRES: the lock of the scheduler.
func (t *Task) stopWaiting() {
	t.class.waiting = slices.DeleteFunc(t.class.waiting, func(o *Task) bool { return o == t })
	t.state = taskIdle
	if t.paused != nil {
		t.narrow.stopped--
		t.wide.stopped--
	}
}

// displace ends the task, as others need its place among the paused ones. REQUIRES: the lock
// of the scheduler.
func (t *Task) displace() {
	t.scheduler.displaced++
	t.cancel(ErrDisplaced)
}

// Await calls f, which waits for the client. If that takes long, others may have the slot.
// Await returns when f has returned and the task has a slot again, or with the cause of its
// context.
func (t *Task) Await(f func()) error {
	t.scheduler.mu.Lock()
	t.awaits++
	this := t.awaits
	t.scheduler.mu.Unlock()
	timer := time.AfterFunc(t.scheduler.options.Idle, func() { t.setIdle(this) })
	f()
	timer.Stop()
	t.scheduler.mu.Lock()
	t.awaits++ // a timer that has fired comes too late
	t.idle = false
	t.place.Touch()
	if t.paused != nil {
		t.paused.Touch()
	}
	ended := t.state == taskEnded
	t.scheduler.mu.Unlock()
	if ended {
		return context.Cause(t.ctx)
	}
	return t.acquire(nil)
}

// setIdle says that the client of the task neither sends nor reads, if the call of Await with
// a number is not over.
func (t *Task) setIdle(number uint64) {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	if t.awaits != number || t.state == taskEnded {
		return
	}
	t.idle = true
	if t.state == taskWaiting {
		t.stopWaiting()
	}
	t.scheduler.schedule(t.class)
}

// Attach says that a process works for the task from now on. The process stands still while
// others have the slot of the task. REQUIRES: the context of the process ends with that of the task.
func (t *Task) Attach(p *Process) { t.attach(p) }

func (t *Task) attach(p child) {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	t.process = p
	p.lower(t.nice())
	if t.paused != nil {
		p.pause()
	}
}

// borrowed is how much lower the priority is of a process beyond the share of its network.
const borrowed = 5

// nice returns the priority of the task's processes. REQUIRES: the lock of the scheduler.
func (t *Task) nice() int {
	if t.network.IsValid() && t.wide.working > int(bound.Share(int64(t.class.limits.Slots))) {
		return t.class.limits.Nice + borrowed
	}
	return t.class.limits.Nice
}

// PausedTime returns how long others have had the slot of the task in all.
func (t *Task) PausedTime() time.Duration {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	if t.paused != nil {
		return t.pausedTime + time.Since(t.pausedSince)
	}
	return t.pausedTime
}

// Stop gives the slot back and keeps the place. Processes that are attached later never stand
// still. REQUIRES: no process works for the task.
func (t *Task) Stop() {
	s := t.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	t.stop()
	s.schedule(t.class)
}

// stop takes the task from those that work or wait. REQUIRES: the lock of the scheduler.
func (t *Task) stop() {
	switch t.state {
	case taskWaiting:
		t.stopWaiting()
	case taskWorking:
		t.class.stopWorking(t)
	}
	if t.paused != nil {
		t.paused.Release()
		t.paused = nil
	}
	t.process = nil
}

// End gives the slot and the place back, and ends the context. Further calls do nothing.
func (t *Task) End() {
	t.cancel(context.Canceled)
	s, c := t.scheduler, t.class
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == taskEnded {
		return
	}
	t.stop()
	t.state = taskEnded
	t.place.Release()
	release(c.narrow, t.network)
	release(c.wide, t.neighbourhood)
	s.schedule(c)
}
