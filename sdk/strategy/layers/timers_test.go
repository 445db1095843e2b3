package layers

import (
	"math/rand/v2"
	"testing"
)

// TestTimersAgainstMap takes points in time in their order.
func TestTimersAgainstMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var timers Timers
	timers.reset()
	model := make(map[uint64]int64)
	for now := int64(1); now < 30_000; now++ {
		key, at := random.Uint64N(50), now+random.Int64N(300)
		switch random.IntN(4) {
		case 0:
			timers.Stop(key)
			delete(model, key)
		case 1:
			timers.Sooner(key, at)
			if before, ok := model[key]; !ok || at < before {
				model[key] = at
			}
		default:
			timers.Set(key, at)
			model[key] = at
		}
		var last due
		for {
			key, ok := timers.Take(now)
			if !ok {
				break
			}
			d := due{model[key], key}
			if d.at == 0 || d.at > now || d.before(last) {
				t.Fatalf("at %d: %v after %v", now, d, last)
			}
			delete(model, key)
			last = d
		}
		for key, at := range model {
			if at <= now {
				t.Fatalf("at %d: %d of %d was not taken", now, key, at)
			}
		}
		if len(timers.heap) > 300 {
			t.Fatalf("%d entries for %d points in time", len(timers.heap), len(model))
		}
	}
}
