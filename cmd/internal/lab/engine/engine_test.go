package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host/plugin/plugintest"
	"talon/sdk/abi/manifest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var strategies = []string{"layered-v1", "layered-v2", "layered-v4", "layered-v5"}

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

// Every bundled strategy keeps every invariant, in three scenarios, and has all that it is
// to have at the end.
func TestInvariants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	seeds, least := uint64(3), 1.0
	names := []string{"small", "lines", "restarts"}
	if os.Getenv("TALON_TEST_DEVNET") != "" {
		seeds, names = 100, nil
		least = 0.97 // of what is on relays that repositories list no more, some is out of reach
		for _, name := range scenario.Names() {
			if builtin(t, name).Level == string(result.Wire) {
				names = append(names, name)
			}
		}
	}
	all := open(t, manifest.WorldStrategy, strategies...)
	polite := open(t, manifest.WorldThrottle, "polite")[0]
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := builtin(t, name)
			for seed := range seeds {
				w := world.Draw(s, seed)
				for _, strategy := range all {
					r := run(t, engine.Config{World: w, Level: result.Wire, Strategy: strategy, Throttle: polite})
					if complete, _ := r.Measures.Get(result.Completeness); r.End.How != result.Finished || complete < least || len(r.Findings) > 0 {
						t.Errorf("%s, seed %d: %s %s, completeness %v, %+v", strategy.About().Name, seed, r.End.How, r.End.Reason, complete, r.Findings)
					}
				}
			}
		})
	}
}

// Equal seeds make equal bytes, at both levels; another seed makes others.
func TestRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := builtin(t, "restarts")
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
	s, err := builtin(t, "small").With("quiet", "10m")
	if err == nil {
		s, err = s.With("duration", "1h")
	}
	if err != nil {
		t.Fatal(err)
	}
	text := func(interpret bool) string {
		strategy, polite := openBy(t, interpret, manifest.WorldStrategy, "layered-v5")[0], openBy(t, interpret, manifest.WorldThrottle, "polite")[0]
		return line(t, run(t, engine.Config{World: world.Draw(s, 1), Level: result.Wire, Strategy: strategy, Throttle: polite, Relays: true}))
	}
	if a, b := text(false), text(true); a != b {
		t.Errorf("they differ: %s", difference(a, b))
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

// The two levels agree: all that is to come comes at both, and the bytes of the model are
// within a third of those of the wire.
func TestLevels(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	s := builtin(t, "small")
	polite := open(t, manifest.WorldThrottle, "polite")[0]
	for _, strategy := range open(t, manifest.WorldStrategy, strategies...) {
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
		if complete[0] != complete[1] || bytes[1] < bytes[0]*2/3 || bytes[1] > bytes[0]*4/3 {
			t.Errorf("%s: complete %v at the wire and %v in the model, bytes %v and %v", strategy.About().Name, complete[0], complete[1], bytes[0], bytes[1])
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
