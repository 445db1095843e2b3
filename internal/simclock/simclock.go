// Package simclock is the time of a simulation: a [Clock] stands still until it runs the next
// event. Events of the same time happen in the order in which they were queued. So a
// simulation in one goroutine repeats itself.
package simclock

import "talon/internal/heap"

// Clock has the future events. Times are milliseconds. One goroutine uses it.
type Clock struct {
	now    int64
	events heap.Heap[event]
	number uint64 // of events that were queued so far
}

type event struct {
	at     int64
	number uint64
	do     func()
}

// New returns a clock that stands at a time.
func New(now int64) *Clock {
	before := func(a, b event) bool { return a.at < b.at || a.at == b.at && a.number < b.number }
	return &Clock{now: now, events: heap.New(before, nil)}
}

// Now returns the time.
func (c *Clock) Now() int64 { return c.now }

// At has something happen at a time that has not passed.
func (c *Clock) At(at int64, do func()) {
	c.number++
	c.events.Push(event{at, c.number, do})
}

// After has something happen in a while.
func (c *Clock) After(ms int64, do func()) { c.At(c.now+ms, do) }

// Never is later than all times.
const Never = 1<<63 - 1

// Next returns when the next event happens, [Never] if there is none.
func (c *Clock) Next() int64 {
	if c.events.Len() == 0 {
		return Never
	}
	return c.events.Top().at
}

// Step runs the next event, at its time. REQUIRES: there is one.
func (c *Clock) Step() {
	e := c.events.Pop()
	c.now = max(c.now, e.at)
	e.do()
}

// RunUntil runs the events up to a time before [Never], and leaves the clock there.
func (c *Clock) RunUntil(end int64) {
	for c.Next() <= end {
		c.Step()
	}
	c.now = max(c.now, end)
}

// Alarm calls a function again and again, each time at the time that was asked for last, or
// before.
type Alarm struct {
	clock *Clock
	ring  func()
	due   int64 // 0: nothing is set
}

// NewAlarm returns an alarm that is not set.
func (c *Clock) NewAlarm(ring func()) Alarm { return Alarm{clock: c, ring: ring} }

// Set has it ring by a time; a past one is now. Near [Never] it does nothing.
func (a *Alarm) Set(at int64) {
	now := a.clock.now
	if at >= Never/2 || a.due > now && a.due <= at {
		return
	}
	at = max(at, now)
	a.due = at
	a.clock.At(at, func() {
		if a.due == at {
			a.due = 0
			a.ring()
		}
	})
}
