package engine_test

import (
	"bytes"
	"os"
	"testing"
	"time"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/module"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/host/plugin/plugintest"
	"talon/sdk/abi/manifest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

func TestSmall(t *testing.T) {
	folders := []string{"plugins/layered-v5", "plugins/polite"}
	dir, code := plugintest.Build(t, folders...), plugintest.MachineCode(t, folders...)
	s, err := module.Open(t.Context(), dir+"/layered-v5.wasm", module.Options{World: manifest.WorldStrategy, CacheDir: code})
	if err != nil {
		t.Fatal(err)
	}
	th, err := module.Open(t.Context(), dir+"/polite.wasm", module.Options{World: manifest.WorldThrottle, CacheDir: code})
	if err != nil {
		t.Fatal(err)
	}
	sc, _, err := scenario.Builtin("small")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		begun := time.Now()
		w := world.Draw(sc, seed)
		drawn := time.Since(begun)
		begun = time.Now()
		r, err := engine.Run(t.Context(), engine.Config{World: w, Level: result.Wire, Strategy: s, Throttle: th, Relays: true})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := result.NewWriter(&b).Write(r); err != nil {
			t.Fatal(err)
		}
		r.Findings = append(r.Findings, result.Finding{})
		m, _ := r.Measures.MarshalJSON()
		t.Logf("seed %d: %d events, drawn in %v, ran in %v: %+v %+v\n%s", seed, len(w.Events), drawn, time.Since(begun), r.End, r.Findings[0].Text, m)
		if r.End.How != result.Finished {
			t.Error(r.End.Reason)
		}
	}
}
