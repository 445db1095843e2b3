package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/host/bound"
)

// schedule returns a scheduler with four slots of each class.
func schedule(t testing.TB, change func(*ScheduleOptions)) *Scheduler {
	t.Helper()
	o := DefaultScheduleOptions
	for i := range o.Classes {
		o.Classes[i].Slots, o.Classes[i].Wait = 4, 0
	}
	if change != nil {
		change(&o)
	}
	s, err := NewScheduler(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fakeChild is a process in virtual time. It ends when it has worked as long as it has to.
type fakeChild struct {
	mu     sync.Mutex // guards the fields below
	left   time.Duration
	since  time.Time
	timer  *time.Timer
	nice   int
	pauses int

	done chan struct{} // closed at its end
}

func newFakeChild(work time.Duration) *fakeChild {
	c := &fakeChild{left: work, done: make(chan struct{})}
	c.resume()
	return c
}

func (c *fakeChild) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses++
	if c.timer != nil {
		c.left -= time.Since(c.since)
		if c.timer.Stop() {
			c.left = max(c.left, 1)
		}
	}
	c.timer = nil
}

func (c *fakeChild) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && c.left > 0 {
		c.since, c.timer = time.Now(), time.AfterFunc(c.left, func() { close(c.done) })
	}
}

func (c *fakeChild) lower(nice int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nice = nice
}

func from(addr string) bound.Holder { return bound.Holder{Addr: netip.MustParseAddr(addr)} }

// workOf runs tasks of an address, each with so much work. It returns a function that waits
// for the last to end, and says how long they all took.
func workOf(t *testing.T, s *Scheduler, class Class, addr string, tasks int, each time.Duration) (took func() time.Duration) {
	t.Helper()
	began := time.Now()
	var all sync.WaitGroup
	for range tasks {
		task, err := s.Reserve(t.Context(), class, from(addr))
		if err != nil {
			t.Fatalf("a place for %s: %v", addr, err)
		}
		all.Go(func() {
			defer task.End()
			if err := task.Start(); err != nil {
				t.Errorf("a slot for %s: %v", addr, err)
				return
			}
			child := newFakeChild(each)
			task.attach(child)
			select {
			case <-child.done:
			case <-task.Context().Done():
				t.Errorf("a task of %s ended: %v", addr, context.Cause(task.Context()))
			}
		})
	}
	return func() time.Duration {
		all.Wait()
		return time.Since(began)
	}
}

// idleTask is a task whose client neither sends nor reads, until resume.
type idleTask struct {
	*Task
	child  *fakeChild
	resume func() error // returns what Await returned
}

func newIdleTask(t *testing.T, s *Scheduler, class Class, addr string) *idleTask {
	t.Helper()
	task, err := s.Reserve(t.Context(), class, from(addr))
	if err != nil {
		t.Fatalf("a place for %s: %v", addr, err)
	}
	if err := task.Start(); err != nil {
		t.Fatalf("a slot for %s: %v", addr, err)
	}
	child := newFakeChild(time.Minute)
	task.attach(child)
	client, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- task.Await(func() {
			select {
			case <-client:
			case <-task.Context().Done():
			}
		})
	}()
	t.Cleanup(task.End)
	return &idleTask{task, child, func() error { close(client); return <-ended }}
}

// quiet fails the test if anything of a scheduler is in use.
func quiet(t *testing.T, s *Scheduler) {
	t.Helper()
	synctest.Wait()
	for c := range Classes {
		if l := s.Load(c); l != (Load{}) || len(s.classes[c].narrow)+len(s.classes[c].wide) > 0 {
			t.Errorf("the class %s is at %+v, and knows %d networks at the end", c, l, len(s.classes[c].narrow))
		}
	}
	if n := s.Paused(); n > 0 {
		t.Errorf("%d processes are paused at the end", n)
	}
}

// TestIdleSlotsAreUsed shows that one network uses all slots while nobody else is there, and
// that nothing is paused for that.
func TestIdleSlotsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule(t, nil)
		took := workOf(t, s, ClassFetch, "192.0.2.1", 8, 10*time.Second)
		time.Sleep(5 * time.Second)
		if l := s.Load(ClassFetch); l != (Load{4, 4}) || s.Paused() > 0 {
			t.Errorf("8 tasks are at %+v, %d are paused", l, s.Paused())
		}
		if got := took(); got != 20*time.Second {
			t.Errorf("8 tasks of 10 s in 4 slots took %v, want 20 s", got)
		}
		quiet(t, s)
	})
}

// TestNetworksTakeTurns shows that a newcomer waits for one slice at most, whatever one other
// network does, and that networks share the slots evenly.
func TestNetworksTakeTurns(t *testing.T) {
	for name, addr := range map[string]func(int) string{
		"one address":       func(int) string { return "203.0.113.1" },
		"one neighbourhood": func(i int) string { return fmt.Sprintf("203.0.113.%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := schedule(t, nil)
				var all []func() time.Duration
				for i := range 16 {
					all = append(all, workOf(t, s, ClassFetch, addr(i), 1, time.Minute))
				}
				time.Sleep(5*time.Second + time.Millisecond)
				if got := workOf(t, s, ClassFetch, "192.0.2.1", 1, time.Second)(); got > 1500*time.Millisecond {
					t.Errorf("a newcomer with 1 s of work took %v", got)
				}
				// Two against two.
				if got := workOf(t, s, ClassFetch, "192.0.2.1", 4, 10*time.Second)(); got > 21*time.Second {
					t.Errorf("4 tasks of 10 s took %v in two of four slots", got)
				}
				for _, took := range all {
					took() // none of them fails
				}
				quiet(t, s)
			})
		})
	}
}

// TestNewcomersWaitForNoSlice shows that a network that works nowhere gets a slot of one that
// works beyond its share at once.
func TestNewcomersWaitForNoSlice(t *testing.T) {
	for name, addr := range map[string]string{"another network": "192.0.2.1", "the same neighbourhood": "203.0.113.2"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := schedule(t, nil)
				crowd := workOf(t, s, ClassPush, "203.0.113.1", 4, 10*time.Second)
				synctest.Wait()
				for i := range 5 {
					if got := workOf(t, s, ClassPush, addr, 1, 20*time.Millisecond)(); got != 20*time.Millisecond {
						t.Errorf("20 ms of work of a newcomer took %v in round %d", got, i)
					}
				}
				// A second slot comes after a slice: then it is two against two.
				if got := workOf(t, s, ClassPush, addr, 2, 20*time.Millisecond)(); got != 40*time.Millisecond {
					t.Errorf("twice 20 ms took %v, want one after the other", got)
				}
				if got := crowd(); got > 10*time.Second+200*time.Millisecond {
					t.Errorf("the crowd took %v, want 10 s and what the newcomer took", got)
				}
				quiet(t, s)
			})
		})
	}
}

// TestManyNetworksTakeTurns shows that each of more networks than slots goes on, by slices.
func TestManyNetworksTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule(t, nil)
		var all []func() time.Duration
		for n := range 8 {
			all = append(all, workOf(t, s, ClassFetch, fmt.Sprintf("203.0.%d.1", n), 2, 10*time.Second))
		}
		short := workOf(t, s, ClassFetch, "192.0.2.1", 1, 300*time.Millisecond)
		if got := short(); got > 2*time.Second {
			t.Errorf("0.3 s of work of a ninth network took %v", got)
		}
		for i, took := range all {
			if got := took(); got > 41*time.Second { // 160 s of work in four slots
				t.Errorf("network %d took %v, want 40 s", i, got)
			}
		}
		quiet(t, s)
	})
}

// TestIdleClientsGiveWay shows that a task whose client does not read gives its slot to others
// who wait, and goes on when the client reads again.
func TestIdleClientsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule(t, nil)
		var idle []*idleTask
		for range 4 {
			idle = append(idle, newIdleTask(t, s, ClassFetch, "203.0.113.1"))
		}
		time.Sleep(5 * time.Second)
		if s.Paused() != 0 {
			t.Errorf("%d are paused while nobody waits", s.Paused())
		}
		if got := workOf(t, s, ClassFetch, "192.0.2.1", 3, 10*time.Second)(); got != 10*time.Second {
			t.Errorf("3 tasks of 10 s took %v, while others only wait for their clients", got)
		}
		if s.Paused() != 3 {
			t.Errorf("%d are paused, want 3", s.Paused())
		}
		// The same network, too, may use what its idle tasks hold.
		if got := workOf(t, s, ClassFetch, "203.0.113.1", 4, 10*time.Second)(); got != 10*time.Second {
			t.Errorf("4 tasks of the network whose others are idle took %v", got)
		}
		if s.Displaced() != 0 {
			t.Errorf("%d tasks ended", s.Displaced())
		}
		for i, task := range idle {
			if err := task.resume(); err != nil {
				t.Errorf("idle task %d goes on with %v", i, err)
			}
			<-task.child.done
			task.End()
		}
		quiet(t, s)
	})
}

// TestStalestEnds shows who ends when more tasks stand still than can be paused: the stalest
// of the heaviest network, and only if another network waits.
func TestStalestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule(t, func(o *ScheduleOptions) { o.Classes[ClassFetch].Wait = time.Minute })
		var idle []*idleTask
		for range 8 { // four are paused
			idle = append(idle, newIdleTask(t, s, ClassFetch, "203.0.113.1"))
			time.Sleep(2 * time.Second)
		}
		if s.Paused() != 4 || s.Displaced() != 0 {
			t.Errorf("%d are paused and %d ended, want 4 and none", s.Paused(), s.Displaced())
		}
		one, err := s.Reserve(t.Context(), ClassFetch, from("203.0.113.1"))
		if err != nil {
			t.Fatal(err)
		}
		defer one.End()
		if err := one.Start(); !errors.Is(err, ErrBusy) {
			t.Errorf("a ninth task of the network gets %v, want ErrBusy: no other ends for it", err)
		}
		one.End()
		if got := workOf(t, s, ClassFetch, "192.0.2.1", 2, time.Second)(); got > time.Second {
			t.Errorf("another network waited: %v", got)
		}
		for i, task := range idle {
			if err := context.Cause(task.Context()); (i < 2) != errors.Is(err, ErrDisplaced) {
				t.Errorf("idle task %d: %v; the first two end", i, err)
			}
		}
		// Many networks: 32 are paused, and the stalest ends.
		for n := range 40 {
			newIdleTask(t, s, ClassFetch, fmt.Sprintf("198.51.%d.1", n))
			time.Sleep(2 * time.Second)
			if s.Paused() > 32 {
				t.Fatalf("%d are paused", s.Paused())
			}
		}
		if got := workOf(t, s, ClassPush, "192.0.2.1", 4, time.Second)(); got > time.Second {
			t.Errorf("the other class waited: %v", got)
		}
	})
}

// TestPlaces shows that one network gets an eighth of the places to wait, and that the
// heaviest gives way when all are taken.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule(t, func(o *ScheduleOptions) { o.Classes[ClassPush].Queue = 12 })
		var all []*Task
		for i := range 3 {
			task, err := s.Reserve(t.Context(), ClassPush, from("203.0.113.1"))
			if (err == nil) != (i < 2) || err != nil && !errors.Is(err, ErrBusy) {
				t.Fatalf("place %d of a network: %v", i, err)
			}
			if err == nil {
				all = append(all, task)
			}
		}
		for n := range 14 {
			task, err := s.Reserve(t.Context(), ClassPush, from(fmt.Sprintf("198.51.%d.1", n)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, task)
		}
		task, err := s.Reserve(t.Context(), ClassPush, from("192.0.2.1"))
		if err != nil {
			t.Fatalf("a newcomer gets %v", err)
		}
		if err := context.Cause(all[0].Context()); !errors.Is(err, ErrDisplaced) || s.Displaced() != 1 {
			t.Errorf("the stalest of the heaviest network: %v, %d ended", err, s.Displaced())
		}
		for _, task := range append(all, task) {
			task.End()
		}
		quiet(t, s)
	})
}

// TestStoppedTasksAreNotPaused shows that a process of a task that gave its slot back runs:
// it holds the lock of a repository.
func TestStoppedTasksAreNotPaused(t *testing.T) {
	s := schedule(t, nil)
	task, err := s.Reserve(t.Context(), ClassPush, from("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer task.End()
	if err := task.Start(); err != nil {
		t.Fatal(err)
	}
	task.Stop()
	if l := s.Load(ClassPush); l != (Load{0, 1}) {
		t.Errorf("the class is at %+v", l)
	}
	child := newFakeChild(time.Hour)
	if task.attach(child); child.pauses > 0 {
		t.Error("its process is paused")
	}
}

// TestBorrowedSlotsHaveLessPriority shows that what a network uses beyond its share has less
// of the processors.
func TestBorrowedSlotsHaveLessPriority(t *testing.T) {
	s := schedule(t, nil)
	for i := range 2 {
		task, err := s.Reserve(t.Context(), ClassFetch, from("192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		defer task.End()
		if err := task.Start(); err != nil {
			t.Fatal(err)
		}
		child := newFakeChild(time.Hour)
		if task.attach(child); child.nice != i*borrowed {
			t.Errorf("process %d has the priority %d", i, child.nice)
		}
	}
}

// FuzzScheduler does anything to tasks of many networks, and checks what may not be.
func FuzzScheduler(f *testing.F) {
	f.Add([]byte("clients come, read, do not read, leave, and come again"))
	f.Add([]byte{0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 100, 0, 100, 1, 200, 2, 0, 6, 250, 1, 0, 7})
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := schedule(t, func(o *ScheduleOptions) {
				o.Paused = 8
				o.Classes[ClassFetch] = ClassLimits{Slots: 2, Queue: 14, Wait: time.Minute}
			})
			type client struct {
				*Task
				child *fakeChild
				reads chan struct{}
			}
			var clients []*client
			for i := 0; i+1 < len(ops); i += 2 {
				op, arg := ops[i], ops[i+1]
				switch {
				case op < 100 || len(clients) == 0:
					addr := netip.AddrFrom4([4]byte{10, 0, arg & 7, arg >> 3 & 1})
					if arg >= 240 {
						addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
					}
					task, err := s.Reserve(t.Context(), ClassFetch, bound.Holder{Addr: addr})
					if err != nil {
						continue
					}
					c := &client{task, newFakeChild(1e6 * time.Hour), make(chan struct{})}
					clients = append(clients, c)
					go func() {
						if task.Start() != nil {
							return
						}
						task.attach(c.child)
						for task.Context().Err() == nil {
							_ = task.Await(func() {
								select {
								case <-c.reads:
								case <-task.Context().Done():
								}
							})
						}
					}()
				case op < 200:
					select {
					case clients[int(arg)%len(clients)].reads <- struct{}{}:
					default:
					}
				case op < 220:
					time.Sleep(time.Duration(arg) * 20 * time.Millisecond)
				default:
					n := int(arg) % len(clients)
					clients[n].End()
					clients[n].End()
					clients = append(clients[:n], clients[n+1:]...)
				}
				synctest.Wait()
				s.mu.Lock()
				c := s.classes[ClassFetch]
				running := 0
				for _, x := range clients {
					x.child.mu.Lock()
					if attached := x.process != nil; attached && x.child.timer != nil {
						running++
					}
					if stopped := x.child.timer == nil; stopped == (x.state == taskWorking) && x.process != nil {
						t.Errorf("a process is stopped: %t, and its task in state %d", stopped, x.state)
					}
					x.child.mu.Unlock()
				}
				if len(c.working) > 2 || running > 2 || s.paused.Used() > 8 {
					t.Errorf("%d tasks work, %d processes run, %d are paused", len(c.working), running, s.paused.Used())
				}
				if next := c.next(); next != nil && len(c.working) < 2 {
					t.Error("a slot is free while a task waits")
				}
				s.mu.Unlock()
			}
			for _, c := range clients {
				c.End()
			}
			quiet(t, s)
		})
	})
}
