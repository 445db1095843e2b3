package relaysync

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"talon/host"
	"talon/host/ingest"
	front "talon/host/relay"
	"talon/host/schnorr"
	"talon/host/store"
	"talon/sdk/abi"
)

// acceptAll is a policy.
type acceptAll struct{}

func (acceptAll) Admit(context.Context, *host.Item, *host.FactReader, int64) (host.Ruling, error) {
	return host.Ruling{Action: host.Accept}, nil
}

// facts is a store as ingest and sync see it.
type facts struct{ *store.Store }

func (f facts) Begin() (ingest.Tx, error) { return f.Store.Begin() }

func (f facts) Query(ctx context.Context, filter host.Filter) (list [][]byte, err error) {
	found, err := f.Select(ctx, []host.Filter{filter}, time.Now().Unix())
	if err != nil {
		return nil, err
	}
	err = f.Fetch(ctx, found.Rows, func(_ int64, json []byte) error {
		list = append(list, append([]byte(nil), json...))
		return nil
	})
	return list, err
}

// node is a store and its pipeline, as the daemon has them.
type node struct {
	facts
	pipeline *ingest.Pipeline
	run      func(p ingest.Follower)
}

func newNode(t testing.TB) *node {
	t.Helper()
	db, err := store.Open(t.Context(), t.TempDir(), store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{facts: facts{db}}
	n.pipeline = ingest.New(ingest.Config{
		Verify: schnorr.Verify, Policy: acceptAll{}, Store: n.facts, Facts: n.facts, Held: db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Workers: runtime.GOMAXPROCS(0), Queue: 1024, Batch: 256,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	n.run = func(p ingest.Follower) {
		go func() {
			defer close(done)
			_ = n.pipeline.Run(ctx, p)
		}()
	}
	t.Cleanup(func() {
		cancel()
		<-done
		_ = db.Close()
	})
	return n
}

// fill stores events.
func (n *node) fill(t testing.TB, list []*host.Event) {
	t.Helper()
	var wg sync.WaitGroup
	for _, e := range list {
		wg.Add(1)
		err := n.pipeline.Submit(t.Context(), &host.Item{Event: e, Source: &host.Source{}, Done: func(host.Verdict, error) { wg.Done() }})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// publishes is a relay as a pipeline takes it: what leaves the store is nothing to it.
type publishes struct{ *front.Relay }

func (publishes) Follow([]*host.Event, []host.HeldChange) {}

// serve makes a node a relay.
func (n *node) serve(t testing.TB) (url string) {
	t.Helper()
	door, err := front.New(front.Config{Limits: front.DefaultLimits, Log: slog.New(slog.DiscardHandler)}, front.Deps{Ingest: n.pipeline, Store: n.Store, Verify: schnorr.Verify})
	if err != nil {
		t.Fatal(err)
	}
	n.run(publishes{door})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = door.Run(ctx)
	}()
	server := httptest.NewServer(door)
	t.Cleanup(func() {
		cancel()
		<-done
		server.Close()
	})
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

// issues makes n signed events as large as issues are.
func issues(t testing.TB, n int) (list []*host.Event, bytes int64) {
	text := strings.Repeat("something does not work as it should, and this is how it can be seen. ", 12)
	list = make([]*host.Event, n)
	var wg sync.WaitGroup
	for w := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := w; i < n; i += runtime.GOMAXPROCS(0) {
				list[i] = signed(t, alice, 1621, epoch-int64(i/3), fmt.Sprint(i, text),
					host.Tag{"a", "30617:" + strings.Repeat("ab", 32) + ":demo"}, host.Tag{"subject", "it fails"}, host.Tag{"p", strings.Repeat("ab", 32)})
			}
		})
	}
	wg.Wait()
	for _, e := range list {
		bytes += int64(len(e.JSON))
	}
	return list, bytes
}

// firstSync syncs n events from an independent store to an empty one, and then once
// more, and reports what it cost.
func firstSync(t testing.TB, n int) (first, second time.Duration, share float64, bytes int64) {
	list, size := issues(t, n)
	there := newNode(t)
	url := there.serve(t)
	there.fill(t, list)
	here := newNode(t)
	w := start(t, nil, func(_ *Config, d *Deps) { d.Ingest, d.Facts, d.Local = here.pipeline, here.facts, here.Store })
	here.run(w.sync)
	begun := time.Now()
	t.Logf("%d events prepared", n)
	w.plan.swap(onConnect(url, fetch(url, "first", abi.MethodAuto, kinds(1621))))
	if got := w.plan.wait(t, 1, "done first"); !strings.HasPrefix(got, fmt.Sprintf("done first method=1 complete=true class=0 have=0 need=%d new=%d", n, n)) {
		t.Errorf("the strategy hears %q", got)
	}
	first = time.Since(begun)
	if got := here.Stats().Events; got != int64(n) {
		t.Errorf("%d events are here", got)
	}
	received := func() int64 { return int64(testutil.ToFloat64(w.sync.metrics.received)) }
	got := received()
	begun = time.Now()
	w.plan.swap(func(v *abi.StepView) []abi.StepAction {
		if v.Kind == abi.InputInit {
			return []abi.StepAction{fetch(url, "second", abi.MethodAuto, kinds(1621))}
		}
		return nil
	})
	w.plan.wait(t, 1, "done second method=1 complete=true class=0 have=0 need=0")
	second = time.Since(begun)
	return first, second, float64(got) / float64(size), received() - got
}

// TestFirstSync syncs through real stores and a real relay.
func TestFirstSync(t *testing.T) {
	_, _, share, bytes := firstSync(t, 2000)
	if share > 1.15 {
		t.Errorf("%.2f times the events' bytes were received", share)
	}
	if bytes > 20_000 {
		t.Errorf("%d bytes were received for nothing new", bytes)
	}
}

// BenchmarkFirstSync is the first sync of 50,000 events, and a second with nothing new,
// remote and all on this machine.
func BenchmarkFirstSync(b *testing.B) {
	const n = 50_000
	for range b.N {
		first, second, share, bytes := firstSync(b, n)
		b.ReportMetric(n/first.Seconds(), "events/s")
		b.ReportMetric(share, "bytes/byte")
		b.ReportMetric(second.Seconds()*1000, "ms-second")
		b.ReportMetric(float64(bytes), "bytes-second")
	}
}

// BenchmarkLive is the time from a client's OK at a remote relay to the event being
// stored here.
func BenchmarkLive(b *testing.B) {
	const n = 300
	list, _ := issues(b, n)
	var took []time.Duration
	for range b.N {
		there := newNode(b)
		url := there.serve(b)
		here := newNode(b)
		w := start(b, onConnect(url, live(url, "live", kinds(1621))), func(_ *Config, d *Deps) { d.Ingest, d.Facts, d.Local = here.pipeline, here.facts, here.Store })
		arrived := make(chan host.ID, 10)
		here.run(tee{w.sync, arrived})
		w.plan.wait(b, 1, "eose live")
		for _, e := range list {
			there.fill(b, []*host.Event{e})
			begun := time.Now()
			if id := <-arrived; id != e.ID {
				b.Fatalf("%s came", id)
			}
			took = append(took, time.Since(begun))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
}

// tee tells a Sync what was published, and a channel.
type tee struct {
	*Sync
	arrived chan host.ID
}

func (t tee) Publish(list []host.Published) {
	t.Sync.Publish(list)
	for _, p := range list {
		t.arrived <- p.Event.ID
	}
}
