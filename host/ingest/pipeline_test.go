package ingest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/internal/testkit"
)

// TestChainIsNeverOrphaned sends a chain in which each event needs the one before it. No worker may
// judge an event before its parent is there.
func TestChainIsNeverOrphaned(t *testing.T) {
	r := start(t, needsParent, nil)
	const chains, length = 8, 40
	var wg sync.WaitGroup
	for c := range chains {
		wg.Go(func() {
			events := []*host.Event{event(c * 1000)}
			for i := 1; i < length; i++ {
				events = append(events, replyTo(c*1000+i, c*1000+i-1))
			}
			for i, got := range r.submit(t, &host.Source{}, events...) {
				if got.err != nil || got.verdict.Code != host.Stored {
					t.Errorf("chain %d, event %d: %v %v", c, i, got.verdict, got.err)
				}
			}
		})
	}
	wg.Wait()
}

// A burst that rests on one event is decided again in one go, not one by one.
func TestBurstIsOneRound(t *testing.T) {
	r := start(t, needsParent, func(c *Config) { c.Batch = 256 })
	events := []*host.Event{event(1)}
	for i := range 100 {
		events = append(events, replyTo(2+i, 1))
	}
	for i, got := range r.submit(t, &host.Source{}, events...) {
		if got.verdict.Code != host.Stored {
			t.Errorf("event %d: %v %v", i, got.verdict, got.err)
		}
	}
	if n := testutil.ToFloat64(r.metrics.redecided); n > 300 {
		t.Errorf("%v decisions were taken again for 100 events", n)
	}
}

// TestRemovedFact checks that an event that depends on a removed one is judged without it.
func TestRemovedFact(t *testing.T) {
	deciding, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := start(t, func(ctx context.Context, it *host.Item, facts host.Facts) host.Ruling {
		ruling := needsParent(ctx, it, facts)
		if it.Event.ID == event(2).ID {
			once.Do(func() { close(deciding); <-goOn })
		}
		return ruling
	}, nil)
	r.submit(t, &host.Source{}, event(1))

	deletion := event(3, host.Tag{"e", event(1).ID.String()})
	deletion.Kind = host.KindDeletion
	answers := make(chan reply, 1)
	// The reply is read first, but the deletion is committed before it is decided.
	r.send(t, &host.Source{}, answers, replyTo(2, 1))
	<-deciding
	if got := r.submit(t, &host.Source{}, deletion)[0]; got.verdict.Code != host.Stored {
		t.Errorf("deletion: %v %v", got.verdict, got.err)
	}
	close(goOn)
	if got := <-answers; got.verdict.Reason != "blocked: orphan" {
		t.Errorf("reply to a deleted event: %v %v", got.verdict, got.err)
	}
}

func TestAnswerComesAfterCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		r.store.gate = make(chan struct{})
		answers := make(chan reply, 1)
		r.send(t, &host.Source{}, answers, event(1))
		synctest.Wait()
		if len(answers) > 0 || len(r.out.events) > 0 {
			t.Error("answered or published before the commit")
		}
		close(r.store.gate)
		synctest.Wait()
		if len(answers) != 1 || len(r.out.events) != 1 {
			t.Error("not answered or not published after the commit")
		}
		r.stop()
	})
}

func TestFailures(t *testing.T) {
	poison := event(3)
	tests := []struct {
		name  string
		fail  func(*memory)
		event map[int]string // what event n hears; Stored unless named
	}{
		{"commit fails before it persists", func(m *memory) { m.preFails = 1 }, nil},
		{"commit persists and fails", func(m *memory) { m.postFails = 1 }, map[int]string{0: "duplicate", 1: "duplicate", 2: "duplicate", 3: "duplicate", 4: "duplicate"}},
		{"one event cannot be written", func(m *memory) {
			m.putFails = func(e *host.Event) error {
				if e.ID == poison.ID {
					return errDisk
				}
				return nil
			}
		}, map[int]string{3: "error"}},
		{"nothing can be written", func(m *memory) { m.putFails = func(*host.Event) error { return errDisk } },
			map[int]string{0: "error", 1: "error", 2: "error", 3: "error", 4: "error"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The writer waits for the first decision; so all share a batch.
				gate := make(chan struct{})
				r := start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
					if it.Event.ID == event(0).ID {
						<-gate
					}
					return host.Ruling{Action: host.Accept}
				}, nil)
				tt.fail(r.store)
				got := make(chan reply, 5)
				src := &host.Source{}
				for i := range 5 {
					r.send(t, src, got, event(i))
				}
				synctest.Wait()
				close(gate)
				for i := range 5 {
					want := tt.event[i]
					if want == "" {
						want = "stored"
					}
					a := <-got
					have := a.verdict.Code.String()
					if a.err != nil {
						have = "error"
					}
					if have != want {
						t.Errorf("event %d: got %s (%v), want %s", i, have, a.err, want)
					}
					stored, _ := r.store.Get(t.Context(), event(i).ID)
					if (stored != nil) != (want != "error") {
						t.Errorf("event %d: answered %s, in the store: %v", i, have, stored != nil)
					}
				}
				// The pipeline goes on.
				synctest.Wait()
				r.store.putFails = nil
				r.submit(t, &host.Source{}, event(50))
				r.stop()
			})
		})
	}
}

func TestStopFinishesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		r.store.gate = make(chan struct{})
		answers := make(chan reply, 100)
		for i := range 100 {
			r.send(t, &host.Source{}, answers, event(i))
		}
		synctest.Wait()
		go func() { close(r.store.gate) }()
		r.stop()
		if n := len(answers); n != 100 {
			t.Errorf("%d of 100 items were answered", n)
		}
		if err := r.Submit(t.Context(), &host.Item{Event: event(1)}); !errors.Is(err, ErrClosed) {
			t.Errorf("Submit after the end: %v", err)
		}
	})
}

func TestSubmitWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, func(c *Config) { c.Queue, c.Batch = 1, 1 })
		r.store.gate = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		accepted, src := 0, &host.Source{}
		for i := 0; ; i++ {
			err := r.Submit(ctx, &host.Item{Event: event(i), Source: src, Done: func(host.Verdict, error) {}})
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if accepted++; accepted > 10 {
				t.Fatal("a full queue takes everything")
			}
		}
		close(r.store.gate)
		r.stop()
	})
}

func TestRules(t *testing.T) {
	author := host.PubKey{7}
	client, sync, file := host.FromClient, host.FromSync, host.FromImport
	repost := func(content string) *host.Event { return &host.Event{Kind: 6, Content: content} }
	tests := []struct {
		name   string
		event  *host.Event
		origin host.Origin
		authed []host.PubKey
		want   string
	}{
		{"plain", &host.Event{Kind: 1}, client, nil, ""},
		{"auth event", &host.Event{Kind: 22242}, client, nil, "invalid:"},
		{"expired", &host.Event{Tags: host.Tags{{"expiration", "1000"}}}, client, nil, "invalid: event has expired"},
		{"expires later", &host.Event{Tags: host.Tags{{"expiration", "1001"}}}, client, nil, ""},
		{"protected, nobody authenticated", &host.Event{PubKey: author, Tags: host.Tags{{"-"}}}, client, nil, "auth-required:"},
		{"protected, by another", &host.Event{PubKey: author, Tags: host.Tags{{"-"}}}, client, []host.PubKey{{8}}, "restricted:"},
		{"protected, by its author", &host.Event{PubKey: author, Tags: host.Tags{{"-"}}}, client, []host.PubKey{{8}, author}, ""},
		{"protected, from a relay", &host.Event{PubKey: author, Tags: host.Tags{{"-"}}}, sync, nil, "blocked:"},
		{"protected, from a file", &host.Event{PubKey: author, Tags: host.Tags{{"-"}}}, file, nil, ""},
		{"repost of a protected event", repost(`{"tags":[["e","x"],["-"]]}`), client, nil, "blocked:"},
		{"repost of a protected event, escaped", repost(`{"tags":[["\u002d"]]}`), client, nil, "blocked:"},
		{"repost", repost(`{"tags":[["e","-"]]}`), client, nil, ""},
		{"repost without content", repost(``), client, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := rule(&host.Item{Event: tt.event, Source: &host.Source{Origin: tt.origin}, Authed: tt.authed}, 1000)
			if v == nil {
				v = &host.Verdict{}
			}
			if tt.want == "" && v.Reason != "" || !strings.HasPrefix(v.Reason, tt.want) {
				t.Errorf("got %q, want %q", v.Reason, tt.want)
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	bad := errors.New("bad")
	ephemeral := event(5)
	ephemeral.Kind = 20001
	r := start(t, func(_ context.Context, it *host.Item, _ host.Facts) host.Ruling {
		for _, tag := range it.Event.Tags {
			n, _ := strconv.Atoi(tag[0])
			return host.Ruling{Action: host.Action(n), Reason: "blocked: x"}
		}
		return host.Ruling{Action: host.Accept}
	}, func(c *Config) {
		c.Verify = func(e *host.Event) error {
			switch e.ID {
			case event(6).ID:
				return host.ErrID
			case event(7).ID:
				return bad
			}
			return nil
		}
	})
	action := func(n int, a host.Action) *host.Event { return event(n, host.Tag{strconv.Itoa(int(a))}) }
	tests := []struct {
		event *host.Event
		want  host.Verdict
	}{
		{event(1), host.Verdict{Code: host.Stored}},
		{action(2, host.Reject), host.Verdict{Code: host.Rejected, Reason: "blocked: x"}},
		{action(3, host.ShadowReject), host.Verdict{Code: host.ShadowRejected}},
		{action(4, host.RequireAuth), host.Verdict{Code: host.AuthRequired, Reason: "blocked: x"}},
		{ephemeral, host.Verdict{Code: host.Relayed}},
		{event(6), host.Verdict{Code: host.Rejected, Reason: "invalid: event id does not match the content"}},
		{event(7), host.Verdict{Code: host.Rejected, Reason: "invalid: event signature is not valid"}},
		{event(1), host.Verdict{Code: host.Duplicate, Reason: "duplicate: already have this event"}},
	}
	for _, tt := range tests {
		if got := r.submit(t, &host.Source{}, tt.event)[0]; got.verdict != tt.want || got.err != nil {
			t.Errorf("%s: got %v %v, want %v", tt.event.JSON, got.verdict, got.err, tt.want)
		}
	}
	if n := len(r.out.events); n != 2 {
		t.Errorf("%d events were published, want 2", n)
	}
}

// A known id with another event under it is not a duplicate.
func TestRecentIDsAreNotBelieved(t *testing.T) {
	verified := 0
	r := start(t, acceptAll, func(c *Config) {
		c.Workers = 1
		c.Verify = func(e *host.Event) error { verified++; return nil }
	})
	e := event(1)
	r.submit(t, &host.Source{}, e, e)
	if verified != 2 {
		t.Errorf("a made-up id was believed: %d verifications", verified)
	}
}

// A copy that was queued behind the deletion of the event is not a duplicate.
func TestDuplicateOfDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, func(c *Config) { c.Workers = 1 })
		e := event(0)
		testkit.Seal(e)
		r.submit(t, &host.Source{}, e)
		hold := event(7)
		gate := make(chan struct{})
		r.store.putFails = func(x *host.Event) error {
			if x.ID == hold.ID {
				<-gate // until the copy has been decided
			}
			return nil
		}
		deletion := event(1, host.Tag{"e", e.ID.String()})
		deletion.Kind = host.KindDeletion
		answers := make(chan reply, 3)
		r.send(t, &host.Source{}, answers, hold, deletion, e)
		synctest.Wait()
		close(gate)
		<-answers
		<-answers
		if got := <-answers; got.verdict.Code == host.Duplicate {
			t.Errorf("a copy of a deleted event is called a duplicate")
		}
		r.stop()
	})
}

func TestSweepRemovesExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, acceptAll, nil)
		e := event(1, host.Tag{"expiration", strconv.FormatInt(time.Now().Add(10*time.Second).Unix(), 10)})
		if got := r.submit(t, &host.Source{}, e)[0]; got.verdict.Code != host.Stored {
			t.Fatalf("%v %v", got.verdict, got.err)
		}
		for _, after := range []struct {
			wait time.Duration
			want bool
		}{{9 * time.Second, true}, {3 * time.Second, false}} {
			time.Sleep(after.wait) // in the time of the bubble
			synctest.Wait()
			if got, _ := r.store.Get(t.Context(), e.ID); (got != nil) != after.want {
				t.Errorf("after %v the event is there: %v", after.wait, got != nil)
			}
		}
		r.stop()
	})
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	old := &host.Reads{Stored: []host.Filter{{IDs: []host.ID{event(1).ID}}}}
	for i := range 3 * historyEvents {
		h.add(change{event: event(i + 10)})
	}
	h.commit()
	if len(h.changes) > historyEvents {
		t.Errorf("%d changes are remembered", len(h.changes))
	}
	if !h.stale(old, 5) {
		t.Error("a decision from before the history is taken for fresh")
	}
	if h.stale(old, uint64(3*historyEvents)) {
		t.Error("a decision that saw everything is taken for stale")
	}
	big := event(1)
	big.JSON = make([]byte, historyBytes)
	h.add(change{event: big})
	if h.bytes > historyBytes {
		t.Errorf("%d bytes are remembered", h.bytes)
	}
	h.rollback()
	h.add(change{event: event(1)})
	before := h.version - 1
	h.rollback()
	if h.stale(old, before) {
		t.Error("a commit that was not made leaves a mark")
	}
}

func BenchmarkPipeline(b *testing.B) {
	r := start(b, acceptAll, func(c *Config) { c.Batch = 256 })
	src := &host.Source{}
	var wg sync.WaitGroup
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		wg.Add(1)
		if err := r.Submit(b.Context(), &host.Item{Event: event(i), Source: src, Done: func(host.Verdict, error) { wg.Done() }}); err != nil {
			b.Fatal(err)
		}
	}
	wg.Wait()
}
