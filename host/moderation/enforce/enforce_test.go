package enforce_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"talon/host"
	"talon/host/ingest"
	"talon/host/moderation"
	"talon/host/moderation/enforce"
	"talon/host/store"
	"talon/host/store/storetest"
	"talon/internal/testkit"
)

// rig is a store with a pipeline and an enforcer.
type rig struct {
	*testing.T
	db       *store.Store
	log      *moderation.Log
	pipeline *ingest.Pipeline
	enforcer *enforce.Enforcer
	now      atomic.Int64
	failing  atomic.Int64 // takedowns that fail
	downs    atomic.Int64 // takedowns
	delay    time.Duration
	stop     func()       // ends what start has begun last
	lifted   atomic.Int64 // calls of Lifted
	showing  func()       // is called before events are shown; may be nil
}

type anything struct{}

func (anything) Admit(context.Context, *host.Item, *host.FactReader, int64) (host.Ruling, error) {
	return host.Ruling{Action: host.Accept}, nil
}

type realStore struct{ *store.Store }

func (s realStore) Begin() (ingest.Tx, error) { return s.Store.Begin() }

// counted counts takedowns, and fails some.
type counted struct {
	*ingest.Pipeline
	r *rig
}

var errPlanted = errors.New("planted")

func (p counted) TakeDown(ctx context.Context, t host.Takedown) (host.TakedownOutcome, error) {
	p.r.downs.Add(1)
	if p.r.failing.Add(-1) >= 0 {
		return host.TakedownOutcome{}, errPlanted
	}
	if t.Show != nil && p.r.showing != nil {
		p.r.showing()
	}
	return p.Pipeline.TakeDown(ctx, t)
}

type facts struct{ *store.Store }

func (f facts) Query(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

func newRig(t *testing.T) *rig { return newNode(t, 0) }

// newNode returns a rig that leaves rows to other nodes for a time.
func newNode(t *testing.T, delay time.Duration) *rig {
	r := &rig{T: t, delay: delay}
	r.now.Store(1000)
	var err error
	if r.db, err = store.Open(t.Context(), t.TempDir(), store.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.db.Close() })
	r.start()
	return r
}

// start runs a pipeline and an enforcer until the end of the test, or stop.
func (r *rig) start() (stop func()) {
	now := func() time.Time { return time.Unix(r.now.Load(), 0) }
	r.log = new(moderation.Log)
	rows, err := r.db.Moderation(r.Context(), 0)
	if err != nil {
		r.Fatal(err)
	}
	r.log.Apply(rows)
	r.pipeline = ingest.New(ingest.Config{
		Verify: func(*host.Event) error { return nil }, Policy: anything{}, Store: realStore{r.db}, Facts: facts{r.db},
		Moderation: r.log, Log: slog.New(slog.DiscardHandler), Now: now, Workers: 2, Queue: 64, Batch: 64,
	})
	r.enforcer = enforce.New(enforce.Config{Log: r.log, Store: r.db, Pipeline: counted{r.pipeline, r}, Logger: slog.New(slog.DiscardHandler), Now: now, Delay: r.delay, Lifted: func() { r.lifted.Add(1) }})
	ctx, cancel := context.WithCancel(context.Background())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- r.pipeline.Run(ctx, nil) }()
	go func() { second <- r.enforcer.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := errors.Join(<-first, <-second); err != nil {
				r.Error(err)
			}
		}
	}
	r.Cleanup(stop)
	r.stop = stop
	return stop
}

// put stores events, in one transaction.
func (r *rig) put(list ...*host.Event) {
	r.Helper()
	tx, err := r.db.Begin()
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range list {
		if _, err := tx.Put(e, 10); err != nil {
			r.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) moderate(row moderation.Row) enforce.Progress {
	r.Helper()
	_, sum, err := r.enforcer.Moderate(r.Context(), []moderation.Row{row}, func(enforce.Progress) {})
	if err != nil {
		r.Fatal(err)
	}
	return sum
}

func (r *rig) want(events, hidden int64) {
	r.Helper()
	list, err := r.db.HiddenAfter(r.Context(), 0, 100_000)
	if err != nil {
		r.Fatal(err)
	}
	if n := r.stored(); n != events || int64(len(list)) != hidden {
		r.Errorf("%d events stored and %d hidden, want %d and %d", n, len(list), events, hidden)
	}
}

// stored returns how many events are stored.
func (r *rig) stored() int64 {
	r.Helper()
	n, err := r.db.Count(r.Context(), []host.Filter{{Limit: -1}}, 0)
	if err != nil {
		r.Fatal(err)
	}
	return n
}

// until waits until a number of events is stored.
func (r *rig) until(n int64) {
	r.Helper()
	for end := time.Now().Add(30 * time.Second); r.stored() != n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%d events are stored, want %d", r.stored(), n)
		}
	}
}

func author(n byte) moderation.Target { return moderation.AuthorTarget(host.PubKey{n}) }

// TestRepositoriesShown counts repositories that come back as it counts those that go.
func TestRepositoriesShown(t *testing.T) {
	r := newRig(t)
	r.put(storetest.Event(1, 1, host.KindAnnouncement, 500, host.Tag{"d", "demo"}), storetest.Event(2, 1, 1, 500))
	for _, action := range []moderation.Action{moderation.Hide, moderation.Unhide} {
		if sum := r.moderate(moderation.Row{Action: action, Target: author(1)}); sum.Events != 2 || sum.Repositories != 1 {
			t.Errorf("%s: %+v, want 2 events and 1 repository", action, sum)
		}
	}
}

// TestSlices takes down more than a slice of events, also when most have one second and others of
// that second stay.
func TestSlices(t *testing.T) {
	r := newRig(t)
	var list []*host.Event
	for n := range 1300 {
		list = append(list, storetest.Event(n, 1, 1, int64(500+n/1000)), storetest.Event(10_000+n, 2, 1, 500))
	}
	r.put(list...)
	target, err := moderation.ParseTarget(`{"kinds":[1]}`)
	if err != nil {
		t.Fatal(err)
	}
	if sum := r.moderate(moderation.Row{Action: moderation.Hide, Target: author(1)}); sum.Events != 1300 || sum.Bytes == 0 {
		t.Errorf("hidden: %+v", sum)
	}
	r.want(1300, 1300)
	count, err := r.enforcer.Count(t.Context(), &moderation.Row{Action: moderation.Purge, Target: target})
	if err != nil || count.Events != 2600 {
		t.Errorf("a purge would concern %+v, %v", count, err)
	}
	r.moderate(moderation.Row{Action: moderation.Unhide, Target: author(1)})
	r.want(2600, 0)
	r.moderate(moderation.Row{Action: moderation.Purge, Target: target})
	r.want(0, 0)
}

// TestResume has takedowns fail, and the process end in the middle: the rest is done later.
func TestResume(t *testing.T) {
	r := newRig(t)
	var list []*host.Event
	for n := range 1200 {
		list = append(list, storetest.Event(n, 1, 1, int64(n)))
	}
	r.put(list...)
	r.failing.Store(1)
	_, _, err := r.enforcer.Moderate(t.Context(), []moderation.Row{{Action: moderation.Ban, Target: author(1)}}, func(enforce.Progress) {})
	if !errors.Is(err, errPlanted) {
		t.Errorf("a takedown that fails: %v", err)
	}
	r.until(0)
	r.want(0, 1200)
	r.stop()
	// What another process was doing when it ended: the row is in the log, and nothing is taken down.
	tx, err := r.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	more := storetest.Event(5000, 3, 1, 5)
	if _, err := tx.Put(more, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.AddModeration([]moderation.Row{{Action: moderation.Hide, Target: author(3)}}, 1000); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r.until(1) // readers see it
	r.start()
	r.until(0)
	r.want(0, 1201)
}

// TestUntil shows again what a row has hidden that ends by itself, also while nothing ran.
func TestUntil(t *testing.T) {
	r := newRig(t)
	r.put(storetest.Event(1, 1, 1, 5), storetest.Event(2, 2, 1, 5))
	r.moderate(moderation.Row{Action: moderation.Ban, Target: author(1), Until: 2000})
	r.moderate(moderation.Row{Action: moderation.Hide, Target: author(2)})
	r.want(0, 2)
	r.now.Store(5000)
	r.start()
	r.until(1)
	r.want(1, 1)
}

// TestOverlap shows that an event which two rows hide stays hidden until both have ended.
func TestOverlap(t *testing.T) {
	r := newRig(t)
	e := storetest.Event(1, 1, 1, 5)
	r.put(e)
	r.moderate(moderation.Row{Action: moderation.Hide, Target: author(1)})
	r.moderate(moderation.Row{Action: moderation.Hide, Target: moderation.EventTarget(e.ID)})
	r.moderate(moderation.Row{Action: moderation.Unhide, Target: author(1)})
	r.want(0, 1)
	r.moderate(moderation.Row{Action: moderation.Unhide, Target: moderation.EventTarget(e.ID)})
	r.want(1, 0)
}

// TestTime reports how long it takes to hide, show and purge an author with 10,000 events and 50
// repositories among 10,000 events of others, and how long others wait for a commit meanwhile.
func TestTime(t *testing.T) {
	testkit.SkipRace(t)
	if testing.Short() {
		t.Skip("it measures")
	}
	r := newRig(t)
	const repositories = 50
	events := testkit.Sized(1000, 10_000)
	var list []*host.Event
	for n := range events {
		tags := []host.Tag{{"a", fmt.Sprintf("30617:%s:r%d", host.PubKey{1}, n%repositories)}, {"p", host.PubKey{9}.String()}, {"subject", "x"}, {"t", "bug"}}
		list = append(list, storetest.Event(n, 1, 1621, int64(n%700), tags...), storetest.Event(20_000+n, 2, 1621, int64(n%700), tags[1:]...))
	}
	for n := range repositories {
		list = append(list, storetest.Event(50_000+n, 1, host.KindAnnouncement, 5, host.Tag{"d", fmt.Sprint("r", n)}))
	}
	for part := range slices.Chunk(list, 1000) {
		r.put(part...)
	}
	source := &host.Source{}
	var waits []time.Duration
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // somebody who is not concerned
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			answer := make(chan struct{})
			began := time.Now()
			err := r.pipeline.Submit(ctx, &host.Item{Event: storetest.Event(100_000+n, 3, 1, 5), Source: source, Done: func(host.Verdict, error) { close(answer) }})
			if err != nil {
				return
			}
			<-answer
			waits = append(waits, time.Since(began))
			time.Sleep(2 * time.Millisecond)
		}
	}()
	for _, action := range []moderation.Action{moderation.Hide, moderation.Unhide, moderation.Purge} {
		began := time.Now()
		sum := r.moderate(moderation.Row{Action: action, Target: author(1)})
		t.Logf("%s: %d events and %d repositories in %v", action, sum.Events, sum.Repositories, time.Since(began).Round(time.Millisecond))
	}
	stop()
	<-done
	slices.Sort(waits)
	t.Logf("commits of others: p50 %v, p99 %v, longest %v", waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
}

// TestOtherNodeIsFirst: a node waits for its own row while it leaves an earlier one to another
// node. That one carries out both, and says so only in the store.
func TestOtherNodeIsFirst(t *testing.T) {
	r := newNode(t, 500*time.Millisecond)
	hide := func(n byte) moderation.Row { return moderation.Row{Action: moderation.Hide, Target: author(n)} }
	if _, err := r.pipeline.Moderate(t.Context(), []moderation.Row{hide(1)}); err != nil {
		t.Fatal(err)
	}
	if err := r.db.SaveRelays(t.Context(), "moderation", map[string][]byte{"done": []byte("2")}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(r.delay / 5) // the enforcer sees the row and leaves it; if it is slower, the test passes
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.moderate(hide(2))
	}()
	<-ended // without it, the enforcer waits for a row that another node has carried out
}

// TestShowIsLate: a row bars an event after somebody has decided to show it. It stays hidden.
func TestShowIsLate(t *testing.T) {
	r := newRig(t)
	e := storetest.Event(1, 1, 1, 5)
	r.put(e)
	r.moderate(moderation.Row{Action: moderation.Hide, Target: author(1)})
	for _, shown := range []int64{0, 1} {
		if _, err := r.pipeline.TakeDown(t.Context(), host.Takedown{Show: []host.ID{e.ID}}); err != nil {
			t.Fatal(err)
		}
		r.want(shown, 1-shown)
		if shown == 0 {
			if _, err := r.pipeline.Moderate(t.Context(), []moderation.Row{{Action: moderation.Unhide, Target: author(1)}}); err != nil {
				t.Fatal(err)
			}
			r.until(1) // the enforcer may be the first
		}
	}
}

// TestShowCounts: another node bars some of the events after the enforcer has decided to show all.
// It reports those that were shown.
func TestShowCounts(t *testing.T) {
	r := newRig(t)
	kept, shown := storetest.Event(1, 1, 1, 5), storetest.Event(2, 1, 1, 6)
	r.put(kept, shown)
	r.moderate(moderation.Row{Action: moderation.Hide, Target: author(1)})
	r.showing = func() {
		r.showing = nil
		if _, err := r.pipeline.Moderate(t.Context(), []moderation.Row{{Action: moderation.Ban, Target: moderation.EventTarget(kept.ID)}}); err != nil {
			t.Error(err)
		}
	}
	if p := r.moderate(moderation.Row{Action: moderation.Unhide, Target: author(1)}); p.Events != 1 || p.Bytes != int64(len(shown.JSON)) {
		t.Errorf("the unhide reports %+v, and one event was shown", p)
	}
	r.want(1, 1)
}

// TestLifted: sync hears of each change by which the log bars less, and of no other.
func TestLifted(t *testing.T) {
	r := newRig(t)
	want := func(what string, n int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); r.lifted.Load() < n && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if got := r.lifted.Load(); got != n {
			t.Errorf("%s: %d calls, want %d", what, got, n)
		}
	}
	do := func(a moderation.Action, until int64) {
		t.Helper()
		r.now.Add(1)
		r.moderate(moderation.Row{Action: a, Target: author(1), Until: until})
	}
	do(moderation.Hide, 0)
	do(moderation.Unhide, 0)
	want("unhide", 1)
	do(moderation.Ban, 0)
	do(moderation.Unban, 0)
	want("unban", 2)
	do(moderation.Purge, 0)
	do(moderation.Ban, r.now.Load()+5)
	want("ban and purge", 2)
	r.now.Add(10)
	do(moderation.Hide, 0) // wakes the enforcer
	want("the end of a ban", 3)
	r.stop()
	r.start()
	do(moderation.Allow, 0)
	want("allow, after a restart", 4)
}
