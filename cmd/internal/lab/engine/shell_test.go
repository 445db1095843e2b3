package engine_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host"
	"talon/host/plugin/guest"
	"talon/host/relayclient"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/relaysync"
	"talon/host/relaysync/health"
	"talon/internal/testkit"
	"talon/sdk/abi/manifest"
	rules "talon/sdk/grasp"
)

// The wire of the lab costs what that of the real shell does: sockets, readers and writers
// around the same machines, relays behind real websockets, the clock alone is virtual.
// Bytes that relays send differ by 5 % at most, requests by 10 %; what is here is the same.
func TestShell(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := builtin(t, "small")
	for _, set := range [][2]string{
		{"relays.*.outage-every", "0"}, {"relays.*.jitter", "0"}, {"relays.*.bandwidth", "0"}, {"relays.*.keys", "connection.compression = false"}, {"duration", "2h"}, {"quiet", "30m"},
		{"repositories.roots", "300"}, {"publishers.roots-per-day", "400"}, {"start", "946684800"}, // when synctest begins
	} {
		var err error
		if s, err = s.With(set[0], set[1]); err != nil {
			t.Fatal(err)
		}
	}
	w := world.Draw(s, 1)
	for _, strategy := range open(t, manifest.WorldStrategy, "layered-v2", "layered-v5", "mirror") {
		r := run(t, engine.Config{World: w, Level: result.Wire, Strategy: strategy, Relays: true})
		var lab, real [3]float64 // bytes that relays send, REQs, NEG-OPENs
		for _, row := range r.Relays {
			lab[0] += float64(row.BytesDown)
			lab[1] += float64(row.REQs)
			lab[2] += float64(row.NegOpens)
		}
		complete := 0
		synctest.Test(t, func(t *testing.T) { complete, real = shell(t, w, strategy) })
		wanted := 0
		for _, e := range w.Events {
			if w.Wants(0, e) && e.Ended == 0 {
				wanted++
			}
		}
		if part, _ := r.Measures.Get(result.Completeness); part != 1 || complete != wanted {
			t.Errorf("%s: %v is here in the lab, %d of %d in the shell", strategy.About().Name, part, complete, wanted)
		}
		for i, what := range []string{"bytes", "REQs", "NEG-OPENs"} {
			t.Logf("%s: %s: %.0f in the lab, %.0f in the shell", strategy.About().Name, what, lab[i], real[i])
			most := []float64{0.05, 0.1, 0.1}[i]
			if lab[i] < real[i]*(1-most)-2 || lab[i] > real[i]*(1+most)+2 {
				t.Errorf("%s: %.0f %s in the lab, %.0f in the shell", strategy.About().Name, lab[i], what, real[i])
			}
		}
	}
}

// shell runs a world with the real shell, and returns how many wanted events are here, and
// what the relays sent and were asked.
func shell(t *testing.T, w *world.World, module engine.Module) (here int, cost [3]float64) {
	network := testkit.NewNetwork()
	var relays []*server.Server
	var closers []func()
	latencies := map[string]time.Duration{}
	for _, r := range w.Relays {
		latencies[r.URL] = time.Duration(r.LatencyAt(0)) * time.Millisecond
		s := server.New(r.Profile, r.Seed)
		web := &http.Server{Handler: s}
		done := make(chan error, 1)
		l := network.Listen(strings.TrimPrefix(r.URL, "wss://") + ":80")
		go func() { done <- web.Serve(l) }()
		relays = append(relays, s)
		closers = append(closers, func() {
			_ = web.Close()
			<-done
			s.Close()
		})
	}
	store := &shellStore{w: w, store: relaymodel.NewStore(), named: map[string]bool{}, queue: make(chan *host.Item, 256)}
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		store.run()
	}()
	keeper, err := health.Open(t.Context(), noModule{}, noDisk{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	instance, err := module.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	strategy := &shellStrategy{instance: instance, fresh: true}
	v, err := relaysync.New(relaysync.Config{
		Own: []string{w.Talons[0].Domain}, Bootstrap: bootstrap(w), AllowPrivate: true, Limits: relaysync.DefaultLimits, Seed: 1,
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}, relaysync.Deps{
		Strategy: strategy, Ingest: store, Facts: store, Local: store, Health: keeper, Verify: world.Verify,
		Dialer: plainDialer{network, latencies}, Holdings: noHoldings{},
		Ours: func(a *rules.Announcement) (bool, error) {
			return a.ListsService(rules.Service{Host: w.Talons[0].Domain}), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	strategy.sync, store.sync = v, v
	for _, e := range w.Events {
		for _, c := range e.Copies {
			if c.At <= 0 {
				relays[c.Place].Add(e.Event)
			}
		}
	}
	begun := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- v.Run(ctx) }()
	for _, e := range w.Events {
		for _, c := range e.Copies {
			if c.At > 0 {
				closers = append(closers, stopped(begun.Add(time.Duration(c.At)*time.Millisecond), func() { relays[c.Place].Add(e.Event) }))
			}
		}
	}
	time.Sleep(time.Until(begun.Add(time.Duration(w.End) * time.Millisecond)))
	for _, s := range relays {
		s.Look(func(r *relaymodel.Relay) {
			st := r.Stats()
			cost[0] += float64(st.SentBytes) + 3.5*float64(st.SentFrames) + float64(st.Connections)*(400+float64(len(r.InfoDocument())))
			cost[1] += float64(st.Requests)
			cost[2] += float64(st.Comparisons)
		})
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, f := range closers {
		f()
	}
	close(store.queue)
	<-stored
	instance.Close()
	for _, e := range w.Events {
		if w.Wants(0, e) && e.Ended == 0 && store.store.Get(e.ID) != nil {
			here++
		}
	}
	return here, cost
}

// stopped has something happen at a time, and returns what waits until it has.
func stopped(at time.Time, do func()) func() {
	done := make(chan struct{})
	time.AfterFunc(time.Until(at), func() {
		do()
		close(done)
	})
	return func() { <-done }
}

func bootstrap(w *world.World) (urls []string) {
	for _, r := range w.Relays {
		if r.Bootstrap {
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// shellStore is a store with the policy of the lab.
type shellStore struct {
	w     *world.World
	queue chan *host.Item
	sync  *relaysync.Sync

	mu    sync.Mutex // guards the fields below
	store *relaymodel.Store
	named map[string]bool
	seq   int64
}

func (s *shellStore) run() {
	for it := range s.queue {
		time.Sleep(2 * time.Millisecond) // a commit, of all that has come meanwhile
		for more := true; more; {
			it.Done(s.decide(it.Event), nil)
			select {
			case it, more = <-s.queue:
			default:
				more = false
			}
		}
	}
}

func (s *shellStore) Submit(ctx context.Context, it *host.Item) error {
	select {
	case s.queue <- it:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shellStore) decide(e *host.Event) host.Verdict {
	s.mu.Lock()
	v := s.verdict(e)
	seq := s.seq
	s.mu.Unlock()
	if v.Code == host.Stored {
		s.sync.Publish([]host.Published{{Event: e, Seq: seq}})
	}
	return v
}

func (s *shellStore) verdict(e *host.Event) host.Verdict {
	if old := s.store.Newer(e); old != nil {
		if old.ID == e.ID {
			return host.Verdict{Code: host.Duplicate}
		}
		return host.Verdict{Code: host.Replaced}
	}
	ok := e.Kind == rules.KindState && s.named[host.Address{Kind: rules.KindAnnouncement, PubKey: e.PubKey, D: e.D()}.String()]
	for _, tag := range e.Tags {
		for _, value := range tag[min(1, len(tag)):] {
			ok = ok || s.named[value] || e.Kind == rules.KindAnnouncement && value == s.w.Talons[0].URL
		}
	}
	if !ok {
		return host.Verdict{Code: host.Rejected, Reason: "blocked: not about anything here"}
	}
	s.store.Put(e)
	s.seq++
	s.named[e.ID.String()] = true
	if a, ok := e.Address(); ok {
		s.named[a.String()] = true
	}
	return host.Verdict{Code: host.Stored}
}

func (s *shellStore) Get(_ context.Context, id host.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.store.Get(id); e != nil {
		return e.JSON, nil
	}
	return nil, nil
}

func (s *shellStore) Query(_ context.Context, f host.Filter) (texts [][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.store.Query(&f) {
		texts = append(texts, e.JSON)
	}
	return texts, nil
}

func (s *shellStore) Referenced(context.Context, string) (bool, error)      { return false, nil }
func (s *shellStore) Held(context.Context, host.ID) ([]byte, error)         { return nil, nil }
func (s *shellStore) HeldBy(context.Context, host.Filter) ([][]byte, error) { return nil, nil }

func (s *shellStore) Scan(_ context.Context, f host.Filter, most int, _ int64, yield func(int64, host.ID)) (int64, int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.store.Query(&f)
	list = list[:min(len(list), most)]
	for _, e := range list {
		yield(e.CreatedAt, e.ID)
	}
	return s.seq, len(list), nil
}

func (s *shellStore) Missing(_ context.Context, ids []host.ID) (missing []host.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.store.Get(id) == nil {
			missing = append(missing, id)
		}
	}
	return missing, nil
}

// shellStrategy is a module of the lab as the shell has it.
type shellStrategy struct {
	instance engine.Instance
	sync     *relaysync.Sync
	fresh    bool
}

func (s *shellStrategy) Changed() <-chan struct{} { return nil }

func (s *shellStrategy) Call(ctx context.Context, request []byte, now int64) ([]byte, bool, error) {
	fresh := s.fresh
	if s.fresh = false; fresh {
		request = s.sync.Init()
	}
	if request == nil {
		return nil, fresh, nil
	}
	answer, _, err := s.instance.Call(ctx, guest.Step, request, now)
	return answer, fresh, err
}

// plainDialer connects without TLS, in memory.
type plainDialer struct {
	network   *testkit.Network
	latencies map[string]time.Duration
}

// to connects to a relay. What TCP and TLS take comes first.
func (d plainDialer) to(url string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		time.Sleep(4 * d.latencies[url])
		c, err := d.network.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newDelayed(c, d.latencies[url]), nil
	}
}

func (d plainDialer) Inform(ctx context.Context, url string) (*relaysync.Information, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http"+strings.TrimPrefix(url, "wss"), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/nostr+json")
	transport := &http.Transport{DialContext: d.to(url), DisableKeepAlives: true}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	info := new(relaysync.Information)
	return info, json.NewDecoder(res.Body).Decode(info)
}

func (d plainDialer) Dial(ctx context.Context, url string) (relaysync.Conn, error) {
	return relayclient.DialSocket(ctx, "ws"+strings.TrimPrefix(url, "wss"), relayclient.SocketOptions{Dial: d.to(url)})
}

type noHoldings struct{}

func (noHoldings) Load(context.Context, string) ([]byte, error)  { return nil, nil }
func (noHoldings) Save(context.Context, map[string][]byte) error { return nil }

type noModule struct{}

func (noModule) Ask(context.Context, health.Question, []byte, int64) ([]byte, error) {
	return nil, health.ErrNoModule
}

type noDisk struct{}

func (noDisk) Load(context.Context) (map[string][]byte, error) { return nil, nil }
func (noDisk) Save(context.Context, map[string][]byte) error   { return nil }
