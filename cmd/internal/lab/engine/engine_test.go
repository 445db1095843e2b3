package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host/plugin/plugintest"
	"talon/internal/testkit"
	"talon/sdk/abi/manifest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var strategies = []string{"layered-v1", "layered-v2", "layered-v4", "layered-v5", "mirror"}

// open makes bundled modules ready.
func open(t testing.TB, world string, names ...string) []engine.Module {
	t.Helper()
	return openBy(t, false, world, names...)
}

// openBy has them run by the interpreter, or as machine code.
func openBy(t testing.TB, interpret bool, world string, names ...string) (list []engine.Module) {
	t.Helper()
	var folders []string
	for _, name := range names {
		folders = append(folders, "plugins/"+name)
	}
	dir, code := plugintest.Build(t, folders...), plugintest.MachineCode(t, folders...)
	for _, name := range names {
		m, err := module.Open(t.Context(), filepath.Join(dir, name+".wasm"), module.Options{World: world, CacheDir: code, Interpret: interpret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		list = append(list, m)
	}
	return list
}

func builtin(t testing.TB, name string) *scenario.Scenario {
	t.Helper()
	s, _, err := scenario.Builtin(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// with changes keys of a scenario: KEY=VALUE.
func with(t testing.TB, s *scenario.Scenario, sets ...string) *scenario.Scenario {
	t.Helper()
	var list []string
	for _, set := range sets {
		key, value, _ := strings.Cut(set, "=")
		list = append(list, key, value)
	}
	s, err := s.With(list...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, cfg engine.Config) *result.Run {
	t.Helper()
	r, err := engine.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// line is the result as it is written.
func line(t testing.TB, r *result.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := result.NewWriter(&b).Write(r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every bundled strategy keeps every invariant, and has all at the end that it can have. It runs in
// three scenarios, shortened, with one seed (2 in make scale) or TALON_TEST_SEEDS of them; in large
// nets in all scenarios as they are. make seeds has 2,000 seeds. Events are out of reach if they are only on
// relays that have gone, or that their repository no longer lists.
func TestInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	seeds, low := uint64(testkit.Sized(1, 2)), 0.97
	scenarios := map[string][]string{
		"small":    {"duration=6h", "quiet=2h", "invariants.complete=true"},
		"lines":    {"duration=6h", "quiet=2h", "invariants.complete=true", "repositories.count=10"},
		"restarts": {"duration=6h", "quiet=2h", "invariants.complete=true", "repositories.count=10", "repositories.roots=60"},
	}
	if os.Getenv("TALON_TEST_DEVNET") != "" {
		seeds, scenarios = 100, map[string][]string{}
		for _, name := range scenario.Names() {
			if builtin(t, name).Level == string(result.Wire) {
				scenarios[name] = nil
			}
		}
	}
	if text := os.Getenv("TALON_TEST_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	all := open(t, manifest.WorldStrategy, strategies...)
	polite := open(t, manifest.WorldThrottle, "polite")[0]
	for name, sets := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := with(t, builtin(t, name), sets...)
			for seed := range seeds {
				w := world.Draw(s, seed)
				for _, strategy := range all {
					r := run(t, engine.Config{World: w, Level: result.Wire, Strategy: strategy, Throttle: polite})
					if complete, _ := r.Measures.Get(result.Completeness); r.End.How != result.Finished || complete < low || len(r.Findings) > 0 {
						t.Errorf("%s, seed %d: %s %s, completeness %v, %+v", strategy.About().Name, seed, r.End.How, r.End.Reason, complete, r.Findings)
					}
				}
			}
		})
	}
}

// A relay that takes one filter in a subscription closes that for one letter of root events,
// and then these give way to others. No second subscription asks for the same. In seed 10 it is
// the chunk of the letter itself that gives way.
func TestLettersGiveWay(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	polite := open(t, manifest.WorldThrottle, "polite")[0]
	for name, seed := range map[string]uint64{"mirror": 15, "layered-v5": 10} {
		strategy := open(t, manifest.WorldStrategy, name)[0]
		r := run(t, engine.Config{World: world.Draw(builtin(t, "limits"), seed), Level: result.Wire, Strategy: strategy, Throttle: polite})
		if r.End.How != result.Finished || len(r.Findings) > 0 {
			t.Errorf("%s, seed %d: %s %s, %+v", name, seed, r.End.How, r.End.Reason, r.Findings)
		}
	}
}

// Equal seeds make equal bytes, at both levels; another seed makes others. Make scale runs the
// whole day of the scenario.
func TestRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := builtin(t, "restarts")
	if !testkit.Scale() {
		s = with(t, s, "duration=9h", "quiet=2h", "repositories.roots=60")
	}
	strategy, polite := open(t, manifest.WorldStrategy, "layered-v5")[0], open(t, manifest.WorldThrottle, "polite")[0]
	for _, level := range []result.Level{result.Wire, result.Model} {
		text := func(seed uint64) string {
			return line(t, run(t, engine.Config{World: world.Draw(s, seed), Level: level, Strategy: strategy, Throttle: polite, Relays: true, Trace: "strfry-0"}))
		}
		once := text(1)
		if again := text(1); once != again {
			t.Errorf("level %s: two runs of one seed differ: %s", level, difference(once, again))
		}
		if other := text(2); once == other {
			t.Errorf("level %s: two seeds make the same run", level)
		}
	}
}

// Machine code and the interpreter make the same bytes: what a module decides does not
// depend on the machine.
func TestInterpreter(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := with(t, builtin(t, "small"), "quiet=10m", "duration=1h")
	text := func(interpret bool) string {
		strategy, polite := openBy(t, interpret, manifest.WorldStrategy, "layered-v5")[0], openBy(t, interpret, manifest.WorldThrottle, "polite")[0]
		return line(t, run(t, engine.Config{World: world.Draw(s, 1), Level: result.Wire, Strategy: strategy, Throttle: polite, Relays: true}))
	}
	if a, b := text(false), text(true); a != b {
		t.Errorf("they differ: %s", difference(a, b))
	}
}

// A session notices a broken line although bytes were on their way. With this seed, a relay
// was once silent for a day, and no session noticed.
func TestHalfOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	strategy, polite := open(t, manifest.WorldStrategy, "layered-v5")[0], open(t, manifest.WorldThrottle, "polite")[0]
	r := run(t, engine.Config{World: world.Draw(builtin(t, "outages"), 46), Level: result.Wire, Strategy: strategy, Throttle: polite})
	if r.End.How != result.Finished || len(r.Findings) > 0 {
		t.Errorf("%+v %+v", r.End, r.Findings)
	}
}

// difference shows where two texts part.
func difference(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return a[max(0, i-80):min(len(a), i+80)] + " <> " + b[max(0, i-80):min(len(b), i+80)]
}

// The two levels agree. Both get the same part of the events, and the bytes of the model
// are from a tenth below those of the wire to a quarter above, over three networks: in one network
// alone they can differ more. Make scale has every strategy, make test two that differ most.
func TestLevels(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := builtin(t, "small")
	polite := open(t, manifest.WorldThrottle, "polite")[0]
	compared := strategies
	if !testkit.Scale() {
		compared = []string{"layered-v1", "mirror"}
	}
	for _, strategy := range open(t, manifest.WorldStrategy, compared...) {
		var bytes, complete [2]float64
		for i, level := range []result.Level{result.Wire, result.Model} {
			for seed := range uint64(3) {
				r := run(t, engine.Config{World: world.Draw(s, seed), Level: level, Strategy: strategy, Throttle: polite})
				up, _ := r.Measures.Get(result.BytesUp)
				down, _ := r.Measures.Get(result.BytesDown)
				bytes[i] += up + down
				part, _ := r.Measures.Get(result.Completeness)
				complete[i] += part
			}
		}
		t.Logf("%s: %.0f bytes at the wire, %.0f in the model: %+.0f %%", strategy.About().Name, bytes[0], bytes[1], 100*(bytes[1]/bytes[0]-1))
		if complete[0] != complete[1] || bytes[1] < bytes[0]*0.9 || bytes[1] > bytes[0]*1.25 {
			t.Errorf("%s: complete %v at the wire and %v in the model, bytes %v and %v", strategy.About().Name, complete[0], complete[1], bytes[0], bytes[1])
		}
	}
}

// The hunt is repeatable, over crashes too, and what a throttle does is seen: all data that
// can be had come, and who presses harder has them sooner and is refused more.
func TestGit(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := with(t, builtin(t, "git"), "quiet=1h", "duration=4h", "repositories.count=60", "repositories.talons=1",
		`fault=[{what = "crash", at = "20m", for = "1m"}, {what = "outage", class = "forge", at = "1h", for = "10m"}, {what = "reset", class = "limited", at = "5m"}]`)
	strategy := open(t, manifest.WorldStrategy, "layered-v5")[0]
	var refused, waited []float64
	for _, throttle := range append([]engine.Module{nil}, open(t, manifest.WorldThrottle, "polite", "eager")...) {
		text := ""
		var r *result.Run
		for range 2 {
			r = run(t, engine.Config{World: world.Draw(s, 1), Level: result.Wire, Strategy: strategy, Throttle: throttle, Relays: true})
			if again := line(t, r); text == "" {
				text = again
			} else if text != again {
				t.Fatalf("two runs of one seed differ: %s", difference(text, again))
			}
		}
		if complete, _ := r.Measures.Get(result.Completeness); r.End.How != result.Finished || complete < 1 || len(r.Git) != len(world.Draw(s, 1).Git) {
			t.Errorf("%s: %+v, completeness %v, %d rows", r.Variant(), r.End, complete, len(r.Git))
		}
		n, _ := r.Measures.Get(result.GitRefusals)
		took, _ := r.Measures.Get(result.DataP50)
		refused, waited = append(refused, n), append(waited, took)
	}
	if refused[2] <= refused[1] || waited[2] >= waited[1] || waited[1] >= waited[0] {
		t.Errorf("careful, polite and eager are refused %v times and wait %v s", refused, waited)
	}
}

// The git data of a state come late, since their only server is away for longer than purgatory
// holds the state. It is held again when the server is back.
func TestLateData(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := with(t, builtin(t, "start"), "duration=8h", "quiet=4h", "repositories.count=40", "repositories.zipf=0", "repositories.roots=0",
		"repositories.git-max=1", "publishers.states-per-day=400", `fault=[{what = "outage", class = "forge", at = "10m", for = "3h"}]`, "invariants.within=2h30m")
	polite := open(t, manifest.WorldThrottle, "polite")[0]
	for _, strategy := range open(t, manifest.WorldStrategy, "layered-v5", "mirror") {
		r := run(t, engine.Config{World: world.Draw(s, 1), Level: result.Wire, Strategy: strategy, Throttle: polite})
		if complete, _ := r.Measures.Get(result.Completeness); r.End.How != result.Finished || complete < 1 {
			t.Errorf("%s: %+v, completeness %v", r.Variant(), r.End, complete)
		}
	}
}

// An invariant about git servers that does not hold ends a run.
func TestGitInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	strategy, polite := open(t, manifest.WorldStrategy, "layered-v5")[0], open(t, manifest.WorldThrottle, "polite")[0]
	for key, want := range map[string]string{"data-within": "data", "git-rest": "git-barred"} {
		s := with(t, builtin(t, "start"), "invariants."+key+"=1s")
		r := run(t, engine.Config{World: world.Draw(s, 5), Level: result.Model, Strategy: strategy, Throttle: polite})
		if r.End.How != result.BrokenInvariant || len(r.Findings) != 1 || r.Findings[0].Invariant != want {
			t.Errorf("%s: %+v %+v", key, r.End, r.Findings)
		}
	}
}

// BenchmarkTarget is a day of the network that the source documents aim at.
func BenchmarkTarget(b *testing.B) {
	s := builtin(b, "target")
	strategy, polite := open(b, manifest.WorldStrategy, "layered-v5")[0], open(b, manifest.WorldThrottle, "polite")[0]
	for b.Loop() {
		run(b, engine.Config{World: world.Draw(s, 1), Level: result.Model, Strategy: strategy, Throttle: polite})
	}
}

// BenchmarkSmall runs five strategies with a seed each time.
func BenchmarkSmall(b *testing.B) {
	debug.SetGCPercent(400)
	list := open(b, manifest.WorldStrategy, "mirror", "layered-v5", "layered-v1", "layered-v2", "layered-v4")
	throttle := open(b, manifest.WorldThrottle, "polite")[0]
	s := builtin(b, "small")
	b.ResetTimer()
	for i := range b.N {
		w := world.Draw(s, uint64(i+1))
		for _, m := range list {
			run(b, engine.Config{World: w, Level: result.Wire, Strategy: m, Throttle: throttle, Relays: true})
		}
	}
}
