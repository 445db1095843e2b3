// Package labtest runs a strategy of Go in the lab from go test: natively, without
// WebAssembly, with nothing to build and a debugger at hand. The strategy takes a fifth of
// its time as a module; a run, whose network takes most of the time, three quarters.
//
//	func TestOutages(t *testing.T) {
//		m := labtest.Run(t, "outages", 5, labtest.Strategy{Manifest: manifest, New: func() strategy.Strategy { return new(plan) }})
//		if worst := slices.Max(m["staleness_p99"]); worst > 6*3600 {
//			t.Errorf("an event came after %v s", worst)
//		}
//	}
//
// It is part of the commands, as the lab is, but outside of internal: a test of any package
// of Talon may use it. A module that has only the SDK runs talon lab instead.
package labtest

import (
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/sdk/abi/manifest"
	"talon/sdk/strategy"
)

// Strategy is the strategy under test.
type Strategy struct {
	Manifest string
	Config   map[string]any // over the manifest's defaults
	New      func() strategy.Strategy
	File     string // a .wasm file or the folder of a module, in any language, in place of Manifest and New
}

// open makes the strategy ready.
func (s *Strategy) open(t testing.TB) engine.Module {
	t.Helper()
	if s.File == "" {
		return module.NewNative(t.Name(), s.Manifest, s.Config, s.New)
	}
	m, err := module.Open(t.Context(), s.File, module.Options{World: manifest.WorldStrategy, Config: s.Config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// Measures are the measures by name (docs/reference-lab-results.md): a value for each
// seed.
type Measures map[string][]float64

// Run runs a scenario, a file or one that is built in, with the given number of seeds,
// from 1 on. A run that does not finish, for an invariant or the strategy broke, fails
// the test, and so does each finding.
func Run(t testing.TB, path string, seeds int, s Strategy) Measures {
	t.Helper()
	sc, _, err := scenario.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m := s.open(t)
	all := Measures{}
	for seed := uint64(1); seed <= uint64(seeds); seed++ {
		r, err := engine.Run(t.Context(), engine.Config{World: world.Draw(sc, seed), Level: result.Level(sc.Level), Strategy: m})
		if err != nil {
			t.Fatal(err)
		}
		if r.End.How != result.Finished {
			t.Errorf("seed %d: %s after %v: %s", seed, r.End.How, r.End.At.Duration(), r.End.Reason)
		}
		for _, f := range r.Findings {
			t.Errorf("seed %d: after %v: %s: %s", seed, f.At.Duration(), f.Invariant, f.Text)
		}
		for _, measure := range result.Measures() {
			if x, ok := r.Measures.Get(measure); ok {
				all[measure.String()] = append(all[measure.String()], x)
			}
		}
	}
	return all
}
