package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
)

// A snapshot is used again only while it is exact.
func TestNegentropyIsExact(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	var passed atomic.Int64
	clock := func() time.Time { return start.Add(time.Duration(passed.Load())) }
	w := newWorld(t, func(c *Config, _ *world) { c.Now = clock })
	c := w.dial()
	first := event(1, 1, 1000, "first")
	expires := event(1, 1, 1001, "expires", host.Tag{"expiration", fmt.Sprint(start.Unix() + 5)})
	w.publish(first, expires)
	steps := []struct {
		name   string
		change func()
		want   []host.ID
		scans  int // so far
	}{
		{"first session", func() {}, []host.ID{first.ID, expires.ID}, 1},
		{"nothing has changed", func() {}, []host.ID{first.ID, expires.ID}, 1},
		{"something else was published", func() { w.publish(event(1, 2, 1000, "")) }, []host.ID{first.ID, expires.ID}, 1},
		{"later", func() { passed.Add(int64(3 * time.Second)) }, []host.ID{first.ID, expires.ID}, 1},
		{"an event has expired", func() { passed.Add(int64(3 * time.Second)) }, []host.ID{first.ID}, 2},
		{"a matching event was published", func() { w.publish(event(2, 1, 900, "new")) }, []host.ID{event(2, 1, 900, "new").ID, first.ID}, 2},
		{"one was deleted", func() { w.store.drop(1); w.publish(event(1, 5, 1100, "")) }, []host.ID{event(2, 1, 900, "new").ID}, 3},
		{"committed by another process", func() { w.store.put(event(3, 1, 800, "")) }, []host.ID{event(3, 1, 800, "").ID, event(2, 1, 900, "new").ID}, 4},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			c.t = t
			s.change()
			if got := c.sync("n", `{"kinds":[1]}`); !slices.Equal(got, s.want) {
				t.Errorf("got %v, want %v", got, s.want)
			}
			if w.store.scans != s.scans {
				t.Errorf("%d scans, want %d", w.store.scans, s.scans)
			}
		})
	}
}

// An event that was committed and not yet published is waited for, not scanned
// for.
func TestNegentropyWaitsForPublication(t *testing.T) {
	w := newWorld(t)
	w.publish(event(1, 1, 1000, ""))
	c := w.dial()
	c.sync("n", `{}`)
	e := event(1, 2, 1001, "")
	seq := w.store.put(e)
	go w.relay.Publish([]host.Published{{Event: e, Seq: seq}})
	if got := c.sync("n", `{"kinds":[1]}`); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if got := c.sync("n", `{}`); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

// TestSnapshotsFollowTheStore publishes, replaces, deletes and expires events. A session must see
// the events of the store.
func TestSnapshotsFollowTheStore(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	var passed atomic.Int64
	w := newWorld(t, limit(func(l *Limits) { l.MessageBurst = 1e9 }), func(c *Config, _ *world) {
		c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	})
	r := rand.New(rand.NewPCG(1, 2))
	c := w.dial()
	profile := int64(0) // row of the profile
	for step := range 600 {
		passed.Add(int64(time.Second))
		now := start.Unix() + passed.Load()/int64(time.Second)
		for range r.IntN(4) {
			at := 1000 + r.Int64N(2000)
			switch r.IntN(12) {
			case 0:
				e := event(1, 0, at, fmt.Sprint(step))
				w.store.drop(profile)
				profile = w.store.put(e)
				w.relay.Publish([]host.Published{{Event: e, Seq: profile}})
			case 1:
				w.store.drop(1 + r.Int64N(int64(len(w.store.events)+1)))
				w.publish(event(1, 5, at, fmt.Sprint(step)))
			case 2:
				w.publish(event(2, 1, at, fmt.Sprint(step), host.Tag{"expiration", fmt.Sprint(now + r.Int64N(10))}))
			case 3:
				w.relay.Publish([]host.Published{{Event: event(2, 20001, at, "")}})
			default:
				w.publish(event(byte(r.IntN(3)), host.Kind(1+r.IntN(2)), at, fmt.Sprint(step, at)))
			}
		}
		filter := []string{`{}`, `{"kinds":[1]}`, `{"kinds":[0,5]}`, `{"since":2000}`}[r.IntN(4)]
		f := parseFilters(t, "["+filter+"]")[0]
		var want []host.ID
		for _, row := range w.store.rows(&f, now) {
			want = append(want, w.store.events[row-1].ID)
		}
		got := c.sync("n", filter)
		slices.SortFunc(want, compareIDs)
		slices.SortFunc(got, compareIDs)
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: %s: %d events, want %d", step, filter, len(got), len(want))
		}
	}
	if n := value(t, w.relay, "talon_relay_negentropy_snapshots_extended_total", ""); n < 100 {
		t.Errorf("only %v snapshots were extended: the test says little", n)
	}
}

// Sessions that begin in the middle of a stream of events see all that was
// published before them.
func TestSnapshotsUnderLoad(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.MessageBurst = 1e9 }))
	var published atomic.Int64
	stop := make(chan struct{})
	var publisher, readers sync.WaitGroup
	publisher.Go(func() {
		for i := range 3000 {
			select {
			case <-stop:
				return
			default:
			}
			w.publish(event(1, host.Kind(1+i%2*29_999*(i%7/6)), int64(i*7919%5000), fmt.Sprint(i)))
			published.Store(int64(i + 1))
		}
	})
	for range 3 {
		c := w.dial()
		readers.Go(func() {
			for range 10 {
				low := published.Load()
				got := map[host.ID]bool{}
				for _, id := range c.sync("n", `{}`) {
					got[id] = true
				}
				w.store.mu.Lock()
				for _, e := range w.store.events[:low] {
					if !got[e.ID] {
						t.Errorf("one of the first %d events is missing", low)
						break
					}
				}
				w.store.mu.Unlock()
			}
		})
	}
	readers.Wait()
	close(stop)
	publisher.Wait()
}

// TestCommittedWhileCounting checks that a commit during a count does not cause a full read.
func TestCommittedWhileCounting(t *testing.T) {
	w := newWorld(t)
	w.publish(event(1, 1, 1000, ""))
	c := w.dial()
	c.sync("n", `{"kinds":[1,2]}`)
	w.store.drop(99) // something else has gone
	w.store.counting = sync.OnceFunc(func() { w.publish(event(1, 2, 1001, "")) })
	c.sync("n", `{"kinds":[1,2]}`)
	if got := c.sync("n", `{"kinds":[1,2]}`); len(got) != 2 || w.store.scans != 1 {
		t.Errorf("%d events after %d scans", len(got), w.store.scans)
	}
}

// A count that fails settles nothing.
func TestDoubtOutlivesFailure(t *testing.T) {
	w := newWorld(t)
	w.publish(event(1, 1, 1000, ""))
	f := host.Filter{Kinds: []host.Kind{1}, Limit: -1}
	store := &failingCount{fakeStore: w.store, err: errors.New("disk on fire")}
	w.relay.deps.Store = store
	ss := w.relay.snapshots
	s, _, err := ss.acquire(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	ss.release(s)
	w.store.drop(1)
	w.publish(event(1, 5, 1001, ""))
	if _, _, err := ss.acquire(t.Context(), f); !errors.Is(err, store.err) {
		t.Fatalf("got %v", err)
	}
	store.err = nil
	s, _, err = ss.acquire(t.Context(), f)
	if err != nil || s.set.Len() != 0 {
		t.Fatalf("%v, and an event that is gone is offered", err)
	}
}

type failingCount struct {
	*fakeStore
	err error
}

func (s *failingCount) Count(ctx context.Context, filters []host.Filter, now int64) (int64, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.fakeStore.Count(ctx, filters, now)
}

// More news than is kept makes the store be read again, once.
func TestSnapshotOverrun(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.MessageBurst = 1e9 }))
	c := w.dial()
	c.sync("n", `{}`)
	var n int
	publish := func(more int) {
		for range more {
			n++
			w.publish(event(1, 1, int64(n), ""))
		}
	}
	for _, tt := range []struct{ news, scans int }{{snapshotStep, 1}, {snapshotStep + 1, 2}, {1, 2}} {
		publish(tt.news)
		ss := w.relay.snapshots
		ss.mu.Lock()
		if n := len(ss.byFilter[host.Filter{}.Key()].later); n > snapshotStep {
			t.Errorf("%d events are remembered", n)
		}
		ss.mu.Unlock()
		if got := c.sync("n", `{}`); len(got) != n || w.store.scans != tt.scans {
			t.Fatalf("%d events after %d scans, want %d and %d", len(got), w.store.scans, n, tt.scans)
		}
	}
}

// TestLineage checks that records that successors share are counted once, while one of them is
// used.
func TestLineage(t *testing.T) {
	w := newWorld(t)
	ss := w.relay.snapshots
	for i := range 3 * snapshotStep {
		w.store.put(event(1, 1, 1000+int64(i), ""))
	}
	f := host.Filter{Kinds: []host.Kind{1}, Limit: -1}
	acquire := func() *snapshot {
		t.Helper()
		s, _, err := ss.acquire(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	expect := func(what string, steps int) {
		t.Helper()
		if ss.records != steps*snapshotStep {
			t.Errorf("%s: %v steps of records, want %d", what, float64(ss.records)/snapshotStep, steps)
		}
	}
	first := acquire()
	expect("read", 3)
	w.publish(event(1, 1, 100_000, ""))
	second := acquire()
	expect("one at the end", 4)
	w.publish(event(1, 1, 1, ""))
	third := acquire()
	expect("one at the front", 7)
	ss.release(second)
	expect("the middle one is not used", 7)
	ss.release(first)
	expect("nor is the first", 4)
	again := acquire()
	if again != third || w.store.scans != 1 {
		t.Errorf("%d scans", w.store.scans)
	}
	ss.release(third)
	ss.release(again)
	expect("cached", 4)
	ss.sweep(w.now().Add(time.Hour))
	expect("forgotten", 0)
}

// Where there is no room for a successor, the caller gets an error, and nothing is lost.
func TestNoRoomForSuccessor(t *testing.T) {
	w := newWorld(t, limit(func(l *Limits) { l.NegRecordsTotal = 2 * snapshotStep }))
	ss := w.relay.snapshots
	for i := range snapshotStep + 10 {
		w.store.put(event(1, 1, 1000+int64(i), ""))
	}
	f := host.Filter{Kinds: []host.Kind{1}, Limit: -1}
	s, _, err := ss.acquire(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	w.publish(event(1, 1, 1, ""))
	if _, _, err := ss.acquire(t.Context(), f); !errors.Is(err, errSnapshotsFull) {
		t.Fatalf("got %v", err)
	}
	ss.release(s)
	s, _, err = ss.acquire(t.Context(), f)
	if err != nil || s.set.Len() != snapshotStep+11 {
		t.Fatalf("got %v", err)
	}
	ss.release(s)
	ss.sweep(w.now().Add(time.Hour))
	if ss.records != 0 {
		t.Errorf("%d records are left", ss.records)
	}
}

func TestCanonical(t *testing.T) {
	same := [][2]string{
		{`{"kinds":[1,2],"#t":["a","b"],"#r":["x"]}`, `{"#r":["x"],"#t":["b","a"],"kinds":[2,1]}`},
		{`{}`, `{ }`},
		{`{"kinds":[1,1],"#t":["a","a"]}`, `{"kinds":[1],"#t":["a"]}`},
	}
	for _, s := range same {
		f := parseFilters(t, "["+s[0]+","+s[1]+"]")
		if f[0].Key() != f[1].Key() {
			t.Errorf("%s and %s have different keys", s[0], s[1])
		}
	}
	different := parseFilters(t, `[{}, {"kinds":[]}, {"kinds":[1]}, {"#t":["1"]}, {"#T":["1"]}, {"#t":["a","b"]}, {"#t":["ab"]},
		{"since":1}, {"until":1}, {"authors":[]}, {"ids":[]}, {"kinds":[1],"since":1}]`)
	keys := map[string]int{}
	for i := range different {
		key := different[i].Key()
		if j, ok := keys[key]; ok {
			t.Errorf("filters %d and %d have the same key", i, j)
		}
		keys[key] = i
	}
}

// Snapshots that nobody uses are few, and go after a while.
func TestIdleSnapshots(t *testing.T) {
	w := newWorld(t)
	w.store.put(event(1, 1, 1000, ""))
	c := w.dial()
	for i := range 3 * snapshotsIdle {
		c.sync("n", fmt.Sprintf(`{"kinds":[1,%d]}`, 2+i))
		c.send(`["NEG-CLOSE","n"]`)
	}
	c.ask(`["COUNT","done",{}]`, `["COUNT","done",{"count":1}]`)
	ss := w.relay.snapshots
	if n := len(ss.byFilter); n != snapshotsIdle {
		t.Errorf("%d snapshots are kept", n)
	}
	w.relay.sweep(w.now().Add(2 * snapshotKeep))
	if n := len(ss.byFilter); n != 0 || ss.records != 0 {
		t.Errorf("%d snapshots and %d records are left", n, ss.records)
	}
}

// A build that ends because its client leaves does not fail those who wait for it.
func TestBuilderLeaves(t *testing.T) {
	w := newWorld(t)
	w.store.put(event(1, 1, 1000, ""))
	scan := &interrupted{fakeStore: w.store, began: make(chan struct{})}
	w.relay.deps.Store = scan
	first, second := w.dial(), w.dial()
	first.send(`["NEG-OPEN","n",{},"61"]`)
	<-scan.began
	second.send(`["NEG-OPEN","n",{},"61"]`)
	wait(t, func() bool {
		w.relay.snapshots.mu.Lock()
		defer w.relay.snapshots.mu.Unlock()
		for _, s := range w.relay.snapshots.byFilter {
			return s.users == 2
		}
		return false
	})
	for _, c := range w.relay.all() {
		if c.net.RemoteAddr().String() == first.net.LocalAddr().String() {
			c.closeWith(errShutdown)
		}
	}
	second.expect(`["NEG-MSG","n","61"]`)
}

// interrupted is a store whose first scan lasts until it is stopped.
type interrupted struct {
	*fakeStore
	began chan struct{}
	again atomic.Bool
}

func (s *interrupted) Scan(ctx context.Context, f host.Filter, limit int, now int64, yield func(int64, host.ID)) (int64, int, error) {
	if s.again.Swap(true) {
		return s.fakeStore.Scan(ctx, f, limit, now, yield)
	}
	close(s.began)
	<-ctx.Done()
	return 0, 0, ctx.Err()
}
