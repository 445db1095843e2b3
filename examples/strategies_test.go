package examples

import (
	"context"
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
