package engine_test

import (
	"runtime/debug"
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/world"
	"talon/sdk/abi/manifest"
)

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
