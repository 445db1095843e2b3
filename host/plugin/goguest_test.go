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
	inst, _ := c.modules[0].pool.get(t.Context())
	t.Log("memory", inst.memory.Size())
	c.modules[0].pool.put(inst)
	most := int64(0)
	for i := range 20_000 {
		it.Event.PubKey[1] = byte(i)
		got := admit(t, c, it)
		used := c.modules[0].fuel - int64(inst.fuel.Get())
		if used > most {
			most = used
			t.Log(i, used, inst.memory.Size())
		}
		if got.Action != host.Accept || got.Rule != "words-60" {
			t.Fatalf("decision %d: %+v, want accept by words-60", i, got)
		}
	}
}
