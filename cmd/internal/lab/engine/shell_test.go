package engine_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/host/plugin/guest"
	"talon/host/relayclient"
	"talon/host/relaymodel"
	"talon/host/relaymodel/server"
	"talon/host/relaysync"
	"talon/host/relaysync/health"
	"talon/host/relaysync/relaysynctest"
	"talon/internal/testkit"
	"talon/sdk/abi/manifest"
	"talon/sdk/grasp"
)

// The wire of the lab costs what that of the real shell does: sockets, readers and writers
// around the same machines, relays behind real websockets, the clock alone is virtual.
// Bytes that relays send differ by 5 % at most, requests by 10 %; what is here is the same.
// Make scale has layered-v2, too.
func TestShell(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	w := world.Draw(with(t, builtin(t, "small"), "relays.*.outage-every=0s", "relays.*.jitter=0", "relays.*.bandwidth=0", "relays.*.keys=connection.compression = false", "quiet=30m", "duration=2h",
		"repositories.roots=300", "publishers.roots-per-day=400", "start=946684800"), 1) // it is then that synctest begins
	names := []string{"layered-v5", "mirror", "layered-v2"}
	for _, strategy := range open(t, manifest.WorldStrategy, names[:testkit.Sized(2, 3)]...) {
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
			limit := []float64{0.05, 0.1, 0.1}[i]
			if lab[i] < real[i]*(1-limit)-2 || lab[i] > real[i]*(1+limit)+2 {
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
		s, stop := relaysynctest.Serve(network.Listen(strings.TrimPrefix(r.URL, "wss://")+":80"), r.Profile, r.Seed)
		relays, closers = append(relays, s), append(closers, stop)
	}
	store := relaysynctest.NewStore(2*time.Millisecond, world.Verify)
	store.SetPolicy(store.About(w.Talons[0].URL))
	keeper, err := health.Open(t.Context(), relaysynctest.NoThrottle{}, new(relaysynctest.Memory), slog.New(slog.DiscardHandler))
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
		Dialer: plainDialer{network, latencies}, Holdings: new(relaysynctest.Holdings),
		Hosted: func(a *grasp.Announcement) (bool, error) {
			return a.ListsService(grasp.Service{Host: w.Talons[0].Domain}), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	strategy.sync = v
	store.SetFollower(v)
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
		s.View(func(r *relaymodel.Relay) {
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
	store.Close()
	instance.Close()
	for _, e := range w.Events {
		if w.Wants(0, e) && e.Ended == 0 && store.Has(e.ID) {
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

// to connects to a relay. It first waits for the time of TCP and TLS.
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
