package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
	"talon/sdk/abi"
	schema "talon/sdk/abi/manifest"
	"talon/sdk/strategy"
)

// scale is a world of some size.
type scale struct {
	repos, roots         int // roots of a repository
	relays, relaysOfRepo int
	many                 int // one in this many repositories has manyRoots; 0: none
}

const manyRoots = 500

var (
	thousand    = scale{repos: 1_000, roots: 50, relays: 100, relaysOfRepo: 5}
	tenThousand = scale{repos: 10_000, roots: 50, relays: 500, relaysOfRepo: 5, many: 20}
)

// scaleLimits are what a host gives by default (relaysync.DefaultLimits): of 500 relays,
// 300 are visited in turn.
var scaleLimits = abi.StepLimits{
	Connections: 200, Subscriptions: 70, Filters: 10, Values: 500, Historics: 4, Timers: 2000, Actions: 5000, Bytes: 8 << 20,
}

func relayURL(i int) string { return fmt.Sprintf("wss://relay-%03d.example.com/", i) }

func address(i int) string { return fmt.Sprintf("30617:%064x:repository-%d", i, i) }

func root(n uint64) (id [32]byte) {
	for i := range 4 {
		n += 0x9e3779b97f4a7c15
		x := (n ^ n>>30) * 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(id[8*i:], x^x>>27)
	}
	return id
}

// world writes the parts of an init of this scale, about 64 KiB each.
func (s scale) world() []*abi.StepInit {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []*abi.StepInit{{Seed: 1, Limits: scaleLimits}}
	size, next := 0, uint64(0)
	for i := range s.repos {
		r := abi.KnownRepository{Address: address(i), Level: abi.SyncLevelFull}
		for range s.relaysOfRepo {
			r.Relays = append(r.Relays, relayURL(random.IntN(s.relays)))
		}
		roots := s.roots
		if s.many > 0 && i%s.many == 0 {
			roots = manyRoots
		}
		for range roots {
			r.Roots = append(r.Roots, root(next))
			next++
		}
		if size += 32*roots + 300; size > 64<<10 {
			parts[len(parts)-1].More = true
			parts = append(parts, &abi.StepInit{Seed: 1, Part: uint32(len(parts))})
			size = 0
		}
		last := parts[len(parts)-1]
		last.Repositories = append(last.Repositories, r)
	}
	return parts
}

// stage is a host that does what a strategy asks it for, immediately, and notes how long
// its steps take.
type stage struct {
	tb     testing.TB
	step   func(request []byte, now int64) ([]byte, error)
	now    int64
	timer  int64
	took   []time.Duration
	asked  []abi.Input // what is to be answered
	most   int         // subscriptions of a relay
	subs   map[string]map[string]bool
	visits int // connections that others had to give back
	work   int // values that relays are asked for
	spent  time.Duration
}

func (s *stage) tell(in abi.Input) {
	request := abi.AppendStep(nil, s.now, in)
	start := time.Now()
	answer, err := s.step(request, s.now)
	s.took = append(s.took, time.Since(start))
	s.spent += s.took[len(s.took)-1]
	if err != nil {
		s.tb.Fatalf("step %d, %T: %v", len(s.took), in, err)
	}
	actions, err := abi.DecodeActions(answer, abi.ActionLimits{Actions: 5000, Filters: 10, Values: 500, AllValues: 200_000})
	if err != nil {
		s.tb.Fatal(err)
	}
	for i := range actions {
		a := &actions[i]
		for _, f := range a.Filters {
			for _, tag := range f.Tags {
				s.work += len(tag.Values)
			}
		}
		switch a.Do {
		case abi.DoConnect:
			s.subs[a.Relay] = make(map[string]bool)
			s.asked = append(s.asked, &abi.RelayConnected{Relay: a.Relay, Capabilities: abi.Capabilities{Negentropy: abi.SupportYes}})
		case abi.DoDisconnect:
			delete(s.subs, a.Relay)
			s.visits++
		case abi.DoSubscribe:
			s.subs[a.Relay][a.ID] = true
			s.most = max(s.most, len(s.subs[a.Relay]))
			s.asked = append(s.asked, &abi.Eose{Relay: a.Relay, ID: a.ID})
		case abi.DoUnsubscribe:
			delete(s.subs[a.Relay], a.ID)
		case abi.DoHistoric:
			s.asked = append(s.asked, &abi.HistoricDone{Relay: a.Relay, ID: a.ID, Method: abi.MethodNegentropy, Complete: true})
		case abi.DoSetTimer:
			s.timer = a.At
		}
	}
}

// settle answers requests until none is open.
func (s *stage) settle() {
	for {
		switch {
		case s.timer > 0 && s.timer <= s.now:
			at := s.timer
			s.timer = 0
			s.tell(&abi.TimerFired{ID: "next", At: at})
		case len(s.asked) > 0:
			in := s.asked[0]
			s.asked = s.asked[1:]
			s.tell(in)
		default:
			return
		}
	}
}

// live plays what happens in a day of a world: it begins, all relays connect and
// are asked for everything; events come in; relays are lost and come back; a day
// passes.
func (s *stage) live(sc scale, events int) {
	s.now, s.subs = 1_700_000_000_000, make(map[string]map[string]bool)
	for _, part := range sc.world() {
		s.tell(part)
	}
	s.settle()
	random := rand.New(rand.NewPCG(3, 4))
	next := uint64(1) << 32
	for i := range events {
		s.now += 50
		s.tell(&abi.LocalEvent{Kind: 1621, ID: root(next), Repositories: []string{address(random.IntN(sc.repos))}, Level: abi.SyncLevelFull})
		if next++; i%100 == 99 {
			s.now += 5_000
			s.settle()
		}
	}
	for _, url := range slices.Sorted(maps.Keys(s.subs)) {
		clear(s.subs[url])
		s.tell(&abi.RelayDisconnected{Relay: url, Class: abi.ClassLost, Connected: true, RetryAt: s.now + 1})
		s.now += 100
		s.tell(&abi.RelayConnected{Relay: url, Capabilities: abi.Capabilities{Negentropy: abi.SupportYes}, DisconnectedAt: s.now})
		s.settle()
	}
	for end := s.now + 26*strategy.Hour; s.timer > 0 && s.timer <= end; {
		s.now = s.timer
		s.settle()
	}
}

// quantile returns how long all but one of that many steps take.
func (s *stage) quantile(of int) time.Duration {
	slices.Sort(s.took)
	return s.took[len(s.took)-1-len(s.took)/of]
}

// natively runs the strategy as part of the test.
func natively(tb testing.TB) func([]byte, int64) ([]byte, error) {
	m, err := schema.Parse([]byte(manifest))
	if err != nil {
		tb.Fatal(err)
	}
	settings, err := m.Resolve(nil)
	if err != nil {
		tb.Fatal(err)
	}
	s := new(layered)
	if err := strategy.Configure(s, settings); err != nil {
		tb.Fatal(err)
	}
	call, b := strategy.NewCall(nil), []byte(nil)
	return func(request []byte, _ int64) ([]byte, error) {
		b, err = call.Step(s, request, b[:0])
		return b, err
	}
}

// asModule runs a strategy as a host does. It adds the fuel of each step to a list.
func asModule(tb testing.TB, name string, fuel *[]int64) (step func([]byte, int64) ([]byte, error), memory func() int64) {
	wasm, err := os.ReadFile(filepath.Join(plugintest.Build(tb, "plugins/"+name), name+".wasm"))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := guest.Load(tb.Context(), wasm, guest.Options{
		Name: name, CacheDir: plugintest.MachineCode(tb, "plugins/"+name),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.Close(tb.Context()) })
	first := m.MemoryUsed() // of the instance that was made when the module was loaded
	r, err := m.NewReducer(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return func(request []byte, now int64) ([]byte, error) {
		answer, used, err := r.Call(tb.Context(), guest.Step, request, now/1000)
		*fuel = append(*fuel, used)
		return answer, err
	}, func() int64 { return m.MemoryUsed() - first }
}

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// TestMemory measures the memory of a module with 1,000 repositories of 50 roots, each at 5 of
// 100 relays. The host's records of them come on top (loop.TestRecords). Both together take 10
// MB.
func TestMemory(t *testing.T) {
	var fuel []int64
	step, memory := asModule(t, "layered-v5", &fuel)
	s := &stage{tb: t, step: step}
	empty := memory()
	s.live(thousand, 200)
	if used := memory() - empty; used > 7_500_000 {
		t.Errorf("%d bytes more than before, want at most 7.5 MB", used)
	}
	if s.most > 70 {
		t.Errorf("%d subscriptions on a relay, want at most 70", s.most)
	}
}

// TestSelfTest loads the strategies as a host does before it runs them.
func TestSelfTest(t *testing.T) {
	testkit.Nightly(t, "a relay tests them when it loads them, as cmd/talon does before its tests")
	for _, name := range []string{"mirror", "layered-v5", "layered-v4", "layered-v2", "layered-v1"} {
		wasm, err := os.ReadFile(filepath.Join(plugintest.Build(t, "plugins/"+name), name+".wasm"))
		if err != nil {
			t.Fatal(err)
		}
		if err := guest.SelfTest(t.Context(), wasm, guest.Options{Name: name, CacheDir: plugintest.MachineCode(t, "plugins/"+name)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// BenchmarkScale is a day of a world of each size: natively, and as modules. It
// reports how long steps take, what that is for each value that relays are asked for,
// and the memory: of a module less what it has when nothing is known. Fuel is the same
// on every machine, and on one that has other things to do.
func BenchmarkScale(b *testing.B) {
	for _, sc := range []scale{thousand, tenThousand} {
		b.Run(fmt.Sprintf("native/layered-v5/%d", sc.repos), func(b *testing.B) {
			for b.Loop() {
				var before, after runtime.MemStats
				s := &stage{tb: b, step: natively(b)}
				runtime.GC()
				runtime.ReadMemStats(&before)
				s.live(sc, 2000)
				steps(b, s)
				s.took, s.asked, s.subs = nil, nil, nil
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(after.HeapAlloc-min(before.HeapAlloc, after.HeapAlloc))/1e6, "MB")
				runtime.KeepAlive(s)
			}
		})
		for _, name := range []string{"mirror", "layered-v5", "layered-v4", "layered-v2", "layered-v1"} {
			b.Run(fmt.Sprintf("module/%s/%d", name, sc.repos), func(b *testing.B) {
				for b.Loop() {
					var fuel []int64
					step, memory := asModule(b, name, &fuel)
					empty := memory()
					s := &stage{tb: b, step: step}
					s.live(sc, 2000)
					steps(b, s)
					sum := int64(0)
					for _, n := range fuel {
						sum += n
					}
					slices.Sort(fuel)
					b.ReportMetric(float64(sum)/float64(s.work), "fuel/value")
					b.ReportMetric(float64(fuel[len(fuel)-1-len(fuel)/100]), "p99-fuel")
					b.ReportMetric(float64(fuel[len(fuel)-1]), "max-fuel")
					b.ReportMetric(float64(memory()-empty)/1e6, "MB")
					b.ReportMetric(float64(empty)/1e6, "MB-empty")
				}
			})
		}
	}
}

func steps(b *testing.B, s *stage) {
	b.ReportMetric(float64(len(s.took)), "steps")
	b.ReportMetric(float64(s.quantile(2)), "median-ns")
	b.ReportMetric(float64(s.quantile(100)), "p99-ns")
	b.ReportMetric(float64(s.took[len(s.took)-1]), "max-ns") // took is sorted
	b.ReportMetric(float64(s.spent.Nanoseconds())/float64(s.work), "ns/value")
	b.ReportMetric(float64(len(s.subs)), "connections")
	b.ReportMetric(float64(s.visits), "visits")
	b.ReportMetric(float64(s.most), "subscriptions")
}
