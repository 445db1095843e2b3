package examples

import (
	"context"
	"os"
	"testing"

	"talon/host/plugin/guest"
	"talon/sdk/strategy/strategytest"
)

// otherWorlds are the languages in which there are strategies and throttles.
var otherWorlds = []*language{&languages[0], &languages[2]}

// TestModuleStories runs the stories of the example in each language, as a module with
// the settings of the story.
func TestModuleStories(t *testing.T) {
	for _, l := range otherWorlds {
		t.Run(l.name, func(t *testing.T) {
			wasm := compile(t, l, "hello-strategy")
			if err := guest.SelfTest(t.Context(), wasm, guest.Options{Name: "hello-strategy", CacheDir: machineCode}); err != nil {
				t.Fatal(err)
			}
			strategytest.ModuleStories(t, "testdata/hello-strategy/*.txt", func(t testing.TB, config map[string]any) strategytest.Step {
				ctx := context.WithoutCancel(t.Context())
				r, err := load(t, wasm, guest.Options{Name: "hello-strategy", Config: config}).NewReducer(ctx)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(r.Close)
				return func(request []byte) ([]byte, error) {
					answer, _, err := r.Call(ctx, guest.Step, request, strategytest.Start/1000)
					return answer, err
				}
			})
		})
	}
}

// TestThrottleVectors does for throttles what TestVectors does for policies.
func TestThrottleVectors(t *testing.T) {
	for _, l := range otherWorlds {
		t.Run(l.name, func(t *testing.T) {
			wasm := compile(t, l, "hello-throttle")
			o := guest.Options{Name: "hello-throttle", CacheDir: machineCode}
			if err := guest.SelfTest(t.Context(), wasm, o); err != nil {
				t.Fatal(err)
			}
			if n := len(load(t, wasm, o).Manifest().Vectors); n < 8 {
				t.Errorf("the manifest has %d vectors", n)
			}
		})
	}
}

// TestManifestsOfOtherWorlds holds the manifests against those of Go.
func TestManifestsOfOtherWorlds(t *testing.T) {
	for _, name := range []string{"hello-strategy", "hello-throttle"} {
		want, err := os.ReadFile(name + "/manifest.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range otherWorlds {
			if got, err := os.ReadFile(name + l.suffix + "/manifest.json"); err != nil || string(got) != string(want) {
				t.Errorf("%s%s/manifest.json is not that of %s (%v)", name, l.suffix, name, err)
			}
		}
	}
}
