package ingest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/internal/testkit"
	"talon/sdk/grasp"
)

// holdTagged holds events with an h tag, for the reason in it, and accepts others.
func holdTagged(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
	for _, tag := range it.Event.Tags {
		if tag[0] == "h" {
			return host.Ruling{Action: host.Hold, Reason: tag[1]}
		}
	}
	return host.Ruling{Action: host.Accept}
}

func held(n int) *host.Event { return event(n, host.Tag{"h", ""}) }

type arrived struct {
	released []host.Released
	err      error
}

// arrive queues a release request and waits for its answer.
func (r *rig) arrive(t testing.TB, plan func(context.Context, host.RepoFacts, int64) (host.Release, error)) arrived {
	t.Helper()
	done := make(chan arrived, 1)
	err := r.SubmitRelease(t.Context(), &host.ReleaseRequest{Plan: plan, Done: func(list []host.Released, err error) { done <- arrived{list, err} }})
	if err != nil {
		t.Fatal(err)
	}
	return <-done
}

func (r *rig) release(t testing.TB, events ...*host.Event) arrived {
	t.Helper()
	var ids []host.ID
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return r.arrive(t, host.ReleaseOf(ids...))
}

func (a arrived) fates() (list []string) {
	for _, r := range a.released {
		list = append(list, r.Status.String())
	}
	return list
}

// Without a purgatory nothing is promised that nobody could keep.
func TestNoPurgatory(t *testing.T) {
	r := start(t, holdTagged, func(c *Config) { c.Held = nil })
	want := host.Verdict{Code: host.Rejected, Reason: "blocked: this relay does not hold events back"}
	if got := r.submit(t, &host.Source{}, held(1))[0]; got.verdict != want || got.err != nil {
		t.Errorf("got %v %v, want %v", got.verdict, got.err, want)
	}
	if got := r.submit(t, &host.Source{}, event(2))[0]; got.verdict.Code != host.Stored {
		t.Errorf("another event: %v %v", got.verdict, got.err)
	}
}

// A held event is answered OK true with the policy's reason, and nobody sees it
// until it is released.
func TestHoldAndRelease(t *testing.T) {
	r := start(t, holdTagged, nil)
	plain, reasoned := held(1), event(2, host.Tag{"h", "purgatory: because"})
	for range 2 {
		if got := r.submit(t, &host.Source{}, plain)[0]; got.verdict != (host.Verdict{Code: host.Held, Reason: host.ReasonHeld}) || !got.verdict.OK() || got.err != nil {
			t.Errorf("got %v %v", got.verdict, got.err)
		}
	}
	if got := r.submit(t, &host.Source{}, reasoned)[0]; got.verdict.Reason != "purgatory: because" {
		t.Errorf("got %v %v", got.verdict, got.err)
	}
	if stored, _ := r.store.Get(t.Context(), plain.ID); stored != nil || len(r.out.events) > 0 {
		t.Error("a held event is stored or published")
	}
	got := r.release(t, plain, event(9))
	if got.err != nil || !slices.Equal(got.fates(), []string{"released", "absent"}) {
		t.Errorf("released %v, %v", got.fates(), got.err)
	}
	if stored, _ := r.store.Get(t.Context(), plain.ID); stored == nil || len(r.out.events) != 1 || r.out.events[0].Event.ID != plain.ID || r.out.events[0].Seq == 0 {
		t.Errorf("a released event is not stored and published: %v", r.out.events)
	}
	if got := r.release(t, plain); got.err != nil || !slices.Equal(got.fates(), []string{"absent"}) || len(r.out.events) != 1 {
		t.Errorf("released again: %v, %v, %d published", got.fates(), got.err, len(r.out.events))
	}
	if got := r.release(t); got.err != nil || got.released != nil {
		t.Errorf("released nothing: %v, %v", got.fates(), got.err)
	}
	r.stop() // what is answered is followed before the end
	if want := []string{"held", "held", "released"}; !slices.Equal(r.out.fates(), want) {
		t.Errorf("followed %q, want %q", r.out.fates(), want)
	}
	if n := testutil.ToFloat64(r.metrics.held.WithLabelValues("released", heldKind(plain.Kind))); n != 1 {
		t.Errorf("%v releases are counted", n)
	}
	if n := testutil.ToFloat64(r.metrics.releases.WithLabelValues("nothing")); n != 2 {
		t.Errorf("%v arrivals without effect are counted", n)
	}
	if err := r.SubmitRelease(t.Context(), &host.ReleaseRequest{}); !errors.Is(err, ErrClosed) {
		t.Errorf("arrive after the end: %v", err)
	}
}

func TestEphemeralIsNotHeld(t *testing.T) {
	r := start(t, holdTagged, nil)
	e := held(1)
	e.Kind = 20001
	if got := r.submit(t, &host.Source{}, e)[0]; got.verdict.Code != host.Rejected || got.verdict.Reason != "blocked: an ephemeral event cannot wait" {
		t.Errorf("got %v %v", got.verdict, got.err)
	}
}

// needsHeld accepts an event whose first e tag names one that is held, asked for in
// one of two ways.
func needsHeld(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
	for _, tag := range it.Event.Tags {
		var id host.ID
		if tag[0] != "e" {
			continue
		}
		host.ParseHex(id[:], tag[1])
		found, _ := facts.(host.HeldFacts).Held(ctx, id)
		if len(it.Event.Tags) > 1 {
			list, _ := facts.(host.HeldFacts).HeldBy(ctx, host.Filter{IDs: []host.ID{id}, Limit: 1})
			found = nil
			if len(list) > 0 {
				found = list[0]
			}
		}
		if found == nil {
			return host.Ruling{Action: host.Reject, Reason: "blocked: orphan"}
		}
	}
	return holdTagged(ctx, it, facts)
}

// Events that rest on a held one are sent right after it.
func TestHeldFactAppears(t *testing.T) {
	r := start(t, needsHeld, nil)
	events := []*host.Event{held(1)}
	for i := range 50 {
		tags := []host.Tag{{"e", held(1).ID.String()}}
		if i%2 == 0 {
			tags = append(tags, host.Tag{"x"})
		}
		events = append(events, event(2+i, tags...))
	}
	for i, got := range r.submit(t, &host.Source{}, events...) {
		if got.err != nil || i > 0 && got.verdict.Code != host.Stored {
			t.Errorf("event %d: %v %v", i, got.verdict, got.err)
		}
	}
}

// A decision that was made while an event was held is made again when it is not.
func TestHeldFactGoes(t *testing.T) {
	deciding, goOn := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	r := start(t, func(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
		ruling := needsHeld(ctx, it, facts)
		if it.Event.ID == event(2).ID && first.CompareAndSwap(false, true) {
			close(deciding)
			<-goOn
		}
		return ruling
	}, func(c *Config) { c.Workers = 2 })
	r.submit(t, &host.Source{}, held(1))
	answers := make(chan reply, 1)
	r.send(t, &host.Source{}, answers, replyTo(2, 1))
	<-deciding
	if got := r.release(t, held(1)); got.err != nil {
		t.Fatal(got.err)
	}
	close(goOn)
	if got := <-answers; got.verdict.Reason != "blocked: orphan" {
		t.Errorf("what rests on an event that was released meanwhile: %v %v", got.verdict, got.err)
	}
}

// A release request sees what was submitted before it, though it was planned before that
// was committed.
func TestArrivalSeesWhatIsHeld(t *testing.T) {
	r := start(t, holdTagged, nil)
	all := host.Filter{Limit: -1}
	planned := make(chan struct{})
	first := sync.OnceFunc(func() { close(planned) })
	plan := func(ctx context.Context, facts host.RepoFacts, _ int64) (out host.Release, err error) {
		texts, err := facts.HeldBy(ctx, all)
		defer first()
		for _, text := range texts {
			for n := range 40 {
				if string(held(n).JSON) == string(text) {
					out.IDs = append(out.IDs, held(n).ID)
				}
			}
		}
		return out, err
	}
	// The first commit waits until the arrival has been planned.
	gate := make(chan struct{})
	r.store.putFails = func(e *host.Event) error {
		if e.ID == held(0).ID {
			<-gate
		}
		return nil
	}
	for n := range 20 {
		r.send(t, &host.Source{}, make(chan reply, 1), held(n))
	}
	// Sources have no order among each other: so all are decided first.
	testkit.Eventually(t, "all are decided", func() bool {
		s := r.schedule
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.deciding+s.fast()+s.queued+len(s.retries) == 0
	})
	done := make(chan arrived, 1)
	if err := r.SubmitRelease(t.Context(), &host.ReleaseRequest{Plan: plan, Done: func(list []host.Released, err error) { done <- arrived{list, err} }}); err != nil {
		t.Fatal(err)
	}
	<-planned
	close(gate)
	if got := <-done; got.err != nil || len(got.released) != 20 {
		t.Errorf("%d of 20 held events are released, %v", len(got.released), got.err)
	}
}

// A release that fails tells its sender so, and can be tried again.
func TestReleaseFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(*memory)
		want string // what a second try finds
	}{
		{"commit fails before it persists", func(m *memory) { m.preFails = 1 }, "released"},
		{"commit persists and fails", func(m *memory) { m.postFails = 1 }, "absent"},
		{"the event cannot be written", func(m *memory) { m.putFails = func(*host.Event) error { return errDisk } }, "released"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, holdTagged, nil)
			r.submit(t, &host.Source{}, held(1))
			tt.fail(r.store)
			if got := r.release(t, held(1)); !errors.Is(got.err, errDisk) || got.released != nil || len(r.out.events) > 0 {
				t.Errorf("got %v, %v, %d published", got.fates(), got.err, len(r.out.events))
			}
			r.store.putFails = nil
			if got := r.release(t, held(1)); got.err != nil || !slices.Equal(got.fates(), []string{tt.want}) {
				t.Errorf("second try: %v, %v", got.fates(), got.err)
			}
		})
	}
}

func TestPlanFails(t *testing.T) {
	r := start(t, holdTagged, nil)
	bad := errors.New("the repository cannot be read")
	got := r.arrive(t, func(context.Context, host.RepoFacts, int64) (host.Release, error) { return host.Release{}, bad })
	if !errors.Is(got.err, bad) {
		t.Errorf("got %v", got.err)
	}
	if got := r.submit(t, &host.Source{}, event(1))[0]; got.verdict.Code != host.Stored {
		t.Errorf("afterwards: %v %v", got.verdict, got.err)
	}
}

func TestSweepOfPurgatory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, holdTagged, nil)
		const n = sweepBatch + 10
		for i := range n {
			r.submit(t, &host.Source{}, held(i))
		}
		r.store.mu.Lock()
		r.store.heldUntil = time.Now().Add(30 * time.Second).Unix()
		r.store.mu.Unlock()
		for _, after := range []struct {
			wait time.Duration
			left int
		}{{25 * time.Second, n}, {10 * time.Second, 0}} {
			time.Sleep(after.wait) // in the time of the bubble
			synctest.Wait()
			if got, _ := r.store.HeldBy(t.Context(), host.Filter{Limit: -1}); len(got) != after.left {
				t.Errorf("after %v %d events are held, want %d", after.wait, len(got), after.left)
			}
		}
		r.stop()
		if fates := r.out.fates(); len(fates) != 2*n || fates[2*n-1] != "expired" {
			t.Errorf("followed %d changes", len(fates))
		}
	})
}

// A deletion of a stored event is followed too: it may have had a repository.
func TestFollowRemoved(t *testing.T) {
	r := start(t, acceptAll, nil)
	deletion := event(2, host.Tag{"e", event(1).ID.String()})
	deletion.Kind = host.KindDeletion
	r.submit(t, &host.Source{}, event(1))
	r.submit(t, &host.Source{}, deletion)
	r.stop()
	if len(r.out.removed) != 1 || r.out.removed[0].ID != event(1).ID {
		t.Errorf("followed %v", r.out.removed)
	}
}

// A state starts the time of announcements again whose owners let its author
// maintain, also by way of others' announcements, stored or held.
func TestRestarts(t *testing.T) {
	key := func(n byte) host.PubKey { return host.PubKey{n} }
	m := newMemory()
	n := 0
	announce := func(in map[host.ID]*host.Event, author byte, d string, maintainers ...byte) {
		n++
		e := event(n, host.Tag{"d", d})
		e.Kind, e.PubKey = 30617, key(author)
		tag := host.Tag{"maintainers"}
		for _, who := range maintainers {
			tag = append(tag, key(who).String())
		}
		e.Tags = append(e.Tags, tag)
		e.JSON = e.AppendJSON(nil)
		in[e.ID] = e
	}
	announce(m.held, 1, "repo", 2)
	announce(m.events, 2, "repo", 3) // stored: it says who maintains
	announce(m.held, 3, "repo")
	announce(m.held, 4, "repo", 5) // has nothing to do with 3
	announce(m.held, 3, "other")
	for _, tt := range []struct {
		name   string
		kind   host.Kind
		author byte
		d      string
		want   []byte
	}{
		{"recursive", 30618, 3, "repo", []byte{1, 3}},
		{"listed", 30618, 5, "repo", []byte{4}},
		{"stranger", 30618, 9, "repo", nil},
		{"bad identifier", 30618, 3, "..", nil},
		{"no state", 1618, 3, "repo", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := event(100, host.Tag{"d", tt.d})
			e.Kind, e.PubKey = tt.kind, key(tt.author)
			r := readerOf(m)
			p := New(Config{Held: m})
			h, verdict, err := p.hold(t.Context(), &host.Item{Event: e, Source: &host.Source{}}, &host.Ruling{Action: host.Hold}, r, &view{})
			if err != nil || verdict != nil {
				t.Fatalf("%v, %v", verdict, err)
			}
			got := h.ExtendDeadline
			var want, have []string
			for _, who := range tt.want {
				want = append(want, host.Address{Kind: 30617, PubKey: key(who), D: tt.d}.String())
			}
			for _, a := range got {
				have = append(have, a.String())
			}
			slices.Sort(have)
			if !slices.Equal(have, want) {
				t.Errorf("got %q, want %q", have, want)
			}
			if tt.kind == 30618 && len(r.Reads.Held) == 0 {
				t.Error("what the answer rests on is not noted")
			}
		})
	}
}

// TestStateInPurgatory holds an announcement and its state, through the pipeline and
// a real store: the state starts the announcement's time again, a copy from another
// relay does not.
func TestStateInPurgatory(t *testing.T) {
	db := openStore(t)
	var now atomic.Int64
	r := start(t, holdTagged, func(c *Config) {
		c.Store, c.Facts, c.Held = realStore{db}, noFacts{}, db
		c.Now = func() time.Time { return time.Unix(now.Load(), 0) }
	})
	defer r.stop()
	announcement, state := event(1, host.Tag{"h", ""}, host.Tag{"d", "repo"}), event(2, host.Tag{"h", ""}, host.Tag{"d", "repo"})
	announcement.Kind, state.Kind = 30617, 30618
	for _, e := range []*host.Event{announcement, state} {
		e.JSON = e.AppendJSON(nil)
	}
	for _, step := range []struct {
		at     int64
		event  *host.Event
		origin host.Origin
		since  int64 // of the announcement, afterwards
	}{
		{1000, announcement, host.FromClient, 1000},
		{1100, announcement, host.FromSync, 1000},
		{1200, state, host.FromSync, 1200},
		{1300, announcement, host.FromClient, 1300},
	} {
		now.Store(step.at)
		if got := r.submit(t, &host.Source{Origin: step.origin}, step.event)[0]; got.verdict.Code != host.Held || got.err != nil {
			t.Errorf("at %d: %v %v", step.at, got.verdict, got.err)
		}
		var since []int64
		err := db.EachHeld(t.Context(), func(h host.HeldEvent) error { since = append(since, h.Since); return nil })
		if err != nil || len(since) == 0 || since[0] != step.since {
			t.Errorf("at %d: held since %v, %v, want %d", step.at, since, err, step.since)
		}
	}
}

// readerOf returns the facts of a decision that no worker makes.
func readerOf(m *memory) *host.FactReader {
	return (&view{stored: m, held: m}).reader(newSchedule(1, newMetrics()))
}

// TestForkReadsWithoutNotes checks that the reads of a fork give the same results, and leave no
// notes.
func TestForkReadsWithoutNotes(t *testing.T) {
	m := newMemory()
	m.held[event(1).ID] = event(1)
	r := readerOf(m)
	text, err := r.Fork().Held(t.Context(), event(1).ID)
	if err != nil || !strings.Contains(string(text), event(1).ID.String()) || len(r.Reads.Held) > 0 {
		t.Errorf("got %s, %v, noted %v", text, err, r.Reads.Held)
	}
	none := (&view{stored: m}).reader(newSchedule(1, newMetrics()))
	if list, err := none.HeldBy(t.Context(), host.Filter{}); list != nil || err != nil {
		t.Errorf("without purgatory: got %s, %v", list, err)
	}
	if text, err := none.Held(t.Context(), event(1).ID); text != nil || err != nil {
		t.Errorf("without purgatory: got %s, %v", text, err)
	}
}

// An event that one commit stores and deletes is not a duplicate afterwards.
func TestStoredAndDeletedAtOnce(t *testing.T) {
	db := openStore(t)
	gate := make(chan struct{})
	r := start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
		<-gate // until all are queued
		return host.Ruling{Action: host.Accept}
	}, func(c *Config) { c.Store, c.Facts, c.Held = realStore{db}, noFacts{}, db })
	defer r.stop()
	e := event(0)
	testkit.Seal(e)
	deletion := event(1, host.Tag{"e", e.ID.String()})
	deletion.Kind = host.KindDeletion
	answers := make(chan reply, 2)
	r.send(t, &host.Source{}, answers, e)
	r.send(t, &host.Source{}, answers, deletion)
	close(gate)
	<-answers
	<-answers
	if got := r.submit(t, &host.Source{}, e)[0]; got.verdict.Reason != "blocked: deleted by its author" {
		t.Errorf("got %v %v", got.verdict, got.err)
	}
}

// Clients know the reason word for word.
func TestReason(t *testing.T) {
	if host.ReasonHeld != grasp.ReasonHeld {
		t.Errorf("the host says %q, the rules %q", host.ReasonHeld, grasp.ReasonHeld)
	}
}

// The label of a kind is from a closed set: a policy may hold what it likes.
func TestHeldKind(t *testing.T) {
	for kind, want := range map[host.Kind]string{30617: "30617", 30618: "30618", 1618: "1618", 1619: "1619", 1: "other", 30619: "other"} {
		if got := heldKind(kind); got != want {
			t.Errorf("kind %d has the label %s", kind, got)
		}
	}
}
