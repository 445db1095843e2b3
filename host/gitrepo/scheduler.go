package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"talon/host/bound"
)

// Class is a kind of work that git does. Each class has slots of its own.
type Class uint8

const (
	ClassFetch Class = iota // clones and fetches
	ClassPush               // pushes
	ClassRefs               // lists of refs, which are short
	ClassPage               // pages for browsers
	Classes                 // their number
)

func (c Class) String() string {
	return [Classes]string{"fetch", "push", "refs", "page"}[c]
}

// ClassLimits bound the git processes of one class.
type ClassLimits struct {
	Slots int           // processes that work at one time
	Queue int           // more tasks that wait for a slot, or for their client
	Wait  time.Duration // for the first slot of a task; 0 for no bound
	Nice  int           // priority of the processes: 19 is the lowest
}

// ScheduleOptions are the operator's options for a Scheduler.
type ScheduleOptions struct {
	Classes [Classes]ClassLimits
	Paused  int           // processes that are paused at one time, of all classes
	Slice   time.Duration // after which a task gives its slot to a network that has fewer
	Idle    time.Duration // after which a task that waits for its client gives its slot away
}

// DefaultScheduleOptions are the default options.
var DefaultScheduleOptions = ScheduleOptions{
	Classes: [Classes]ClassLimits{
		ClassFetch: {Slots: max(4, 2*runtime.NumCPU()), Queue: 1024, Wait: time.Minute},
		ClassPush:  {Slots: max(4, runtime.NumCPU()), Queue: 128, Wait: time.Minute, Nice: 5},
		ClassRefs:  {Slots: max(4, runtime.NumCPU()), Queue: 1024, Wait: time.Minute},
		// Half of the processors, and after everybody else.
		ClassPage: {Slots: max(1, runtime.NumCPU()/2), Queue: 256, Wait: 5 * time.Second, Nice: 10},
	},
	Paused: 32,
	Slice:  500 * time.Millisecond,
	Idle:   250 * time.Millisecond,
}

func (o *ScheduleOptions) check() error {
	for c, l := range o.Classes {
		if l.Slots <= 0 || l.Queue < 0 || l.Wait < 0 {
			return fmt.Errorf("set up git: the class %s has %d slots, %d places to wait and %v to wait; slots must be positive", Class(c), l.Slots, l.Queue, l.Wait)
		}
	}
	if o.Paused <= 0 || o.Slice <= 0 || o.Idle <= 0 {
		return errors.New("set up git: the limits of paused processes and the times of slots must be positive")
	}
	return nil
}

// ErrBusy says that too many tasks wait, or that no slot became free in time.
var ErrBusy = errors.New("the server is busy")

// ErrDisplaced is the end of a task that stood still while others waited.
var ErrDisplaced = errors.New("the request stood still while others waited")

// Scheduler shares slots for git processes among networks. A slot is the right to work. A
// task without a slot waits, or its process is paused.
//
// A network may use more slots than its share as long as nobody else waits. A network that
// works nowhere gets such a slot at once. Otherwise, when somebody waits, the network with the
// most slots loses one after a slice of time, and networks take turns. A task whose client neither sends nor reads loses its slot as soon as somebody
// waits. A process that loses its slot is paused. Paused processes are a bound of their own:
// when it is reached, the stalest task of the heaviest network ends.
//
// It is safe for concurrent use, and starts no goroutine.
type Scheduler struct {
	options ScheduleOptions
	paused  *bound.Pot
	lists   *bound.Pot // bytes of the lists that Wants.Walk makes

	mu        sync.Mutex // guards the fields below, and those of tasks
	classes   [Classes]*class
	clock     uint64 // counts tasks and grants
	displaced uint64 // tasks that ended because others needed their place
}

// class is the state of one Class.
type class struct {
	name       Class
	limits     ClassLimits
	places     *bound.Pot
	maxStarted int // tasks of one network that have started: all beyond its share can be paused
	working    []*Task
	waiting    []*Task
	narrow     map[netip.Prefix]*usage
	wide       map[netip.Prefix]*usage
	timer      *time.Timer // of the next slice that ends; nil before the first
}

// usage is what a network or neighbourhood uses of a class.
type usage struct {
	tasks   int
	working int
	stopped int    // tasks that were paused and wait to go on
	served  uint64 // Scheduler.clock when it got a slot last, or came
}

// NewScheduler returns a scheduler.
func NewScheduler(o ScheduleOptions) (*Scheduler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Scheduler{options: o, paused: bound.NewPot(bound.Spec{
		Name: "paused git processes", Unit: "processes", Total: int64(o.Paused), Known: int64(o.Paused) / 4,
		Yields: "the stalest of the heaviest network ends",
	}), lists: bound.NewPot(bound.Spec{
		Name: "lists of objects that refs reach, while git makes them", Unit: "bytes", Total: listBytes,
		Yields: "a list that finds no room is not made, and git looks again for each request",
	})}
	for name, l := range o.Classes {
		c := &class{name: Class(name), limits: l, narrow: make(map[netip.Prefix]*usage), wide: make(map[netip.Prefix]*usage)}
		c.places = bound.NewPot(bound.Spec{
			Name: "git tasks of the class " + c.name.String(), Unit: "tasks", Total: int64(l.Slots + l.Queue), Known: bound.KnownPart(int64(l.Slots + l.Queue)),
			Yields: "the stalest of the heaviest network ends",
		})
		c.maxStarted = int(bound.Share(int64(l.Slots)) + bound.Share(int64(o.Paused)))
		s.classes[name] = c
	}
	return s, nil
}

// Bounds returns the rows of the table of bounds.
func (s *Scheduler) Bounds() []bound.Spec {
	rows := []bound.Spec{s.paused.Spec(), s.lists.Spec()}
	for _, c := range s.classes {
		rows = append(rows, c.places.Spec(), bound.Spec{
			Name: "git processes of the class " + c.name.String() + " that work", Unit: "processes",
			Total: int64(c.limits.Slots), Network: bound.Share(int64(c.limits.Slots)),
			Yields: "the heaviest network: a process at once for a network that has none, else one in each slice of time; it may use more while nobody waits",
		})
	}
	return rows
}

// Load is how much a class works.
type Load struct {
	Working int // tasks with a slot
	Waiting int // tasks without one, also of those whose clients are idle
}

// Load returns how much a class works now.
func (s *Scheduler) Load(name Class) Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.classes[name]
	return Load{Working: len(c.working), Waiting: int(c.places.Used()) - len(c.working)}
}

// Paused returns how many processes are paused now.
func (s *Scheduler) Paused() int64 { return s.paused.Used() }

// Displaced returns how many tasks have ended because others needed their place.
func (s *Scheduler) Displaced() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.displaced
}

// schedule gives slots to those who wait. REQUIRES: mu.
func (s *Scheduler) schedule(c *class) {
	for {
		next := c.next()
		if next == nil || len(c.working) >= c.limits.Slots && !s.takeSlot(c, next) {
			return
		}
		s.grant(c, next)
	}
}

func (u *usage) started() int { return u.working + u.stopped }

// next returns the task that gets the next slot, nil for none: that of the network that works
// least and waits longest for its turn. REQUIRES: mu.
func (c *class) next() *Task {
	var best *Task
	for _, t := range c.waiting {
		if t.paused == nil && t.network.IsValid() && max(t.narrow.started(), t.wide.started()) >= c.maxStarted || t.ctx.Err() != nil {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(t.wide.working, best.wide.working), cmp.Compare(t.wide.served, best.wide.served),
			cmp.Compare(t.narrow.working, best.narrow.working), cmp.Compare(t.narrow.served, best.narrow.served),
			cmp.Compare(t.number, best.number),
		) < 0 {
			best = t
		}
	}
	return best
}

// takeSlot takes a slot from a task for another one, if that is fair. REQUIRES: mu.
func (s *Scheduler) takeSlot(c *class, next *Task) bool {
	victims := slices.DeleteFunc(slices.Clone(c.working), func(t *Task) bool { return !t.idle && !t.heavier(next) })
	slices.SortStableFunc(victims, func(a, b *Task) int {
		if a.idle != b.idle {
			return map[bool]int{true: -1, false: 1}[a.idle]
		}
		return cmp.Or(
			cmp.Compare(b.wide.working, a.wide.working), cmp.Compare(b.narrow.working, a.narrow.working), a.since.Compare(b.since),
		)
	})
	soonest := time.Duration(-1)
	for _, t := range victims {
		if left := s.options.Slice - time.Since(t.since); left > 0 && !t.idle && !t.borrows(next) {
			if soonest < 0 || left < soonest {
				soonest = left
			}
		} else if s.pause(c, t, next) {
			return true
		}
	}
	if soonest >= 0 {
		c.wake(soonest, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.schedule(c)
		})
	}
	return false
}

// wake calls f after a time. REQUIRES: mu.
func (c *class) wake(after time.Duration, f func()) {
	if c.timer == nil {
		c.timer = time.AfterFunc(after, f)
	} else {
		c.timer.Reset(after)
	}
}

// heavier reports whether the network of t works more than that of next. Within a
// neighbourhood, its networks are compared. REQUIRES: mu.
func (t *Task) heavier(next *Task) bool {
	if t.wide != next.wide {
		return t.wide.working > next.wide.working
	}
	return t.narrow.working > next.narrow.working
}

// borrows reports whether the network of t works beyond its share while that of next works
// nowhere. Within a neighbourhood, its networks are compared. REQUIRES: mu.
func (t *Task) borrows(next *Task) bool {
	share := int(bound.Share(int64(t.class.limits.Slots)))
	if t.wide != next.wide {
		return next.wide.working == 0 && t.wide.working > share
	}
	return next.narrow.working == 0 && t.narrow.working > share
}

// pause takes the slot of a task for another one. It reports false if no more can be paused.
// REQUIRES: mu.
func (s *Scheduler) pause(c *class, t, next *Task) bool {
	take := s.paused.Displace
	if t.wide == next.wide {
		take = s.paused.Acquire // no task ends for another one of its neighbourhood
	}
	resumes := next.paused != nil
	if resumes {
		next.paused.Release() // it goes on
	}
	s.touchWaiting()
	hold, err := take(t.by, 1, t.displace)
	if err != nil {
		if resumes { // what it had is still there
			next.paused, _ = s.paused.Acquire(next.by, 1, next.displace)
		}
		return false
	}
	c.stopWorking(t)
	t.paused, t.pausedSince = hold, time.Now()
	if t.process != nil {
		t.process.pause()
	}
	if !t.idle {
		t.wait()
	}
	return true
}

// touchWaiting makes the tasks that wait to go on less stale than those that wait for their
// clients. REQUIRES: mu.
func (s *Scheduler) touchWaiting() {
	for _, c := range s.classes {
		for _, t := range c.waiting {
			if t.paused != nil {
				t.paused.Touch()
			}
		}
	}
}

// grant gives a task a slot. REQUIRES: mu.
func (s *Scheduler) grant(c *class, t *Task) {
	s.clock++
	t.stopWaiting()
	c.working = append(c.working, t)
	t.narrow.working++
	t.wide.working++
	t.narrow.served, t.wide.served = s.clock, s.clock
	t.state, t.since = taskWorking, time.Now()
	if t.paused != nil {
		t.paused.Release()
		t.paused = nil
		t.pausedTime += time.Since(t.pausedSince)
	}
	if t.process != nil {
		t.process.lower(t.nice())
		t.process.resume()
	}
	close(t.slot)
}

// stopWorking takes the slot of a task. REQUIRES: mu.
func (c *class) stopWorking(t *Task) {
	c.working = slices.DeleteFunc(c.working, func(o *Task) bool { return o == t })
	t.narrow.working--
	t.wide.working--
	t.state = taskIdle
}

// Reserve makes a task for a client and takes a place for it. It fails with ErrBusy and never
// waits. Its user calls Start, starts processes with the task's context, and calls End as the
// last of all.
func (s *Scheduler) Reserve(ctx context.Context, name Class, by bound.Holder) (*Task, error) {
	c := s.classes[name]
	t := &Task{scheduler: s, class: c, by: by}
	t.network, t.neighbourhood = bound.Networks(by.Addr)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	place, err := c.places.Acquire(by, 1, func() {
		s.countDisplaced()
		t.cancel(ErrDisplaced)
	})
	if err != nil {
		t.cancel(ErrBusy)
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	t.place, t.number = place, s.clock
	t.narrow, t.wide = s.open(c.narrow, t.network), s.open(c.wide, t.neighbourhood)
	return t, nil
}

func (s *Scheduler) countDisplaced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.displaced++
}

// open returns the usage of a prefix for one more task. REQUIRES: mu.
func (s *Scheduler) open(all map[netip.Prefix]*usage, prefix netip.Prefix) *usage {
	u := all[prefix]
	if u == nil {
		u = &usage{served: s.clock}
		all[prefix] = u
	}
	u.tasks++
	return u
}

// release counts one task less.
func release(all map[netip.Prefix]*usage, prefix netip.Prefix) {
	u := all[prefix]
	if u.tasks--; u.tasks == 0 {
		delete(all, prefix)
	}
}
