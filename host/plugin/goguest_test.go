package plugin

import (
	"strings"
	"testing"

	"talon/host"
	"talon/host/plugin/plugintest"
)

// TestGuestThatCollectsGarbage runs a guest long enough for its garbage
// collector to run within decisions, on their fuel.
func TestGuestThatCollectsGarbage(t *testing.T) {
	c := openChain(t, Options{
		Dir: plugintest.Build(t, "host/plugin/testdata/guests/garbage"), Chain: []string{"garbage"}, Instances: 1,
	})
	it := item(1, strings.Repeat("Some Words ", 30))
	decisions := 20_000
	if testing.Short() || raceDetector {
		decisions = 2_000
	}
	for i := range decisions {
		it.Event.PubKey[1] = byte(i)
		got := admit(t, c, it)
		if got.Action != host.Accept || got.Rule != "words-60" {
			t.Fatalf("decision %d: %+v, want accept by words-60", i, got)
		}
	}
}
