package gitfetch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"talon/host/plugin/guest"
	"talon/host/plugin/plugintest"
	"talon/host/throttle"
	"talon/internal/testkit"
	"talon/sdk/abi"
)

// bundled is a module as the relay runs it.
type bundled struct{ r *guest.Reducer }

func (m bundled) Ask(ctx context.Context, q throttle.Function, request []byte, now int64) ([]byte, error) {
	f := [...]guest.Func{throttle.Delay: guest.ThrottleDelay, throttle.Admit: guest.ThrottleAdmit, throttle.After: guest.ThrottleAfter, throttle.Pick: guest.ThrottlePick}[q]
	answer, _, err := m.r.Call(ctx, f, request, now)
	return answer, err
}

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

// Bundled loads a bundled module, for tests of package gitfetch_test too.
func Bundled(t testing.TB, name string, config map[string]any) throttle.Module {
	return load(t, name, config)
}

func load(t testing.TB, name string, config map[string]any) bundled {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join(plugintest.Build(t, "plugins/"+name), name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	o := guest.Options{Name: name, Config: config, CacheDir: plugintest.MachineCode(t, "plugins/"+name)}
	if err := guest.SelfTest(t.Context(), wasm, o); err != nil {
		t.Fatal(err)
	}
	m, err := guest.Load(t.Context(), wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	r, err := m.NewReducer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return bundled{r}
}

// TestBundledThrottles hunts with each of the bundled modules, compiled, as the relay
// runs them: state from a remote.
func TestBundledThrottles(t *testing.T) {
	for name, config := range map[string]map[string]any{
		"polite": {"first_sync_ms": int64(10), "domains": []any{"git.example.com=10,60"}}, "eager": nil, "adaptive": {"first_sync_ms": int64(10)},
	} {
		t.Run(name, func(t *testing.T) {
			dir, id := work(t, "one")
			r, f := newRemote(t), newForge(t)
			f.hold(alice, "x", []string{id}, r.URL+"/absent.git", r.add(t, "x", dir))
			h := hunt(t, f, load(t, name, config), nil)
			complete(t, f, h)
		})
	}
}

// busySubject is a domain with as much history as there can be.
func busySubject() abi.Subject {
	s := abi.Subject{
		Kind: abi.SubjectDomain, Name: "git.example.com", InFlight: 3, Failures: 2, FailingSince: 1_700_000_000_000, LastSuccess: 1_700_000_000_000,
		Health: abi.HealthDegraded,
	}
	for i := range abi.MaxAges {
		s.Ages = append(s.Ages, uint32(i*3000))
	}
	return s
}

// BenchmarkDecision is what one decision of each module costs, from the encoding of
// the request to the decoded answer.
func BenchmarkDecision(b *testing.B) {
	const now = 1_700_000_100_000
	const repository = "30617:3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d:project"
	admit := abi.ThrottleAdmitRequest{Now: now, Subject: busySubject(), Repository: repository, AllInFlight: 9}
	after := abi.AfterRequest{Now: now, Subject: busySubject(), Outcome: abi.OutcomeRateLimited, Repository: repository, Status: 429, RetryAfter: 9000, Took: 200}
	delay := abi.DelayRequest{Now: now, Subject: abi.Subject{Kind: abi.SubjectRepository, Name: repository}, Origin: abi.OriginSync, EventKind: 30618}
	pick := abi.PickRequest{Now: now, Subject: busySubject()}
	for i := range abi.MaxWaiting {
		pick.Waiting = append(pick.Waiting, abi.Waiting{Repository: repository, Since: now, LastTried: int64(now - i), Attempts: 3, Missing: 5, URLs: 2})
	}
	for _, name := range []string{"polite", "eager", "adaptive"} {
		var config map[string]any
		if name != "adaptive" {
			config = map[string]any{"domains": []any{"github.com=10,60", "codeberg.org=10,60", "gitlab.com=10,60"}}
		}
		m := load(b, name, config)
		ask := NewThrottle(throttle.New(b.Context(), m, "git servers", slog.New(slog.DiscardHandler), func(q throttle.Function) { b.Fatalf("%s failed", q) }))
		for _, bench := range []struct {
			name   string
			decide func()
		}{
			{"delay", func() { ask.Delay(&delay) }}, {"admit", func() { ask.Admit(&admit) }},
			{"after", func() { ask.After(&after) }}, {"pick", func() { ask.Pick(&pick) }},
		} {
			b.Run(name+"/"+bench.name, func(b *testing.B) {
				b.ReportAllocs()
				before := testkit.CPU()
				for b.Loop() {
					bench.decide()
				}
				b.ReportMetric(float64(testkit.CPU()-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
