package engine_test

import (
	"testing"

	"talon/cmd/internal/lab/engine"
	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/scenario"
	"talon/cmd/internal/lab/world"
	"talon/sdk/abi/manifest"
)

func measure(r *result.Run, m result.Measure) float64 {
	x, _ := r.Measures.Get(m)
	return x
}

// A strategy can get the events that relays keep. Completeness is of these, recall is of all.
func TestKeeps(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	m := open(t, manifest.WorldStrategy, "layered-v5")[0]
	least := with(t, builtin(t, "small"), "duration=2h", "quiet=1h", "relays.strfry.outage-every=0s", "relays.grasp.outage-every=0s", "publishers.comments-per-day=600")
	both := func(s *scenario.Scenario, level result.Level) (completeness, recall float64) {
		r := run(t, engine.Config{World: world.Draw(s, 1), Level: level, Strategy: m})
		if r.End.How != result.Finished {
			t.Fatalf("%+v", r.End)
		}
		return measure(r, result.Completeness), measure(r, result.Recall)
	}
	if c, r := both(least, result.Wire); c != 1 || r != 1 {
		t.Errorf("relays that keep everything: completeness %v, recall %v", c, r)
	}
	if c, r := both(with(t, least, "relays.*.refuses=0.7"), result.Wire); c != 1 || r < 0.2 || r > 0.9 {
		t.Errorf("relays that refuse 70 %%: completeness %v, recall %v", c, r)
	}
	for _, level := range []result.Level{result.Wire, result.Model} {
		if c, r := both(with(t, least, "relays.*.keeps=30d"), level); c != 1 || r < 0.2 || r > 0.8 {
			t.Errorf("%s: relays that keep 30 of 90 days: completeness %v, recall %v", level, c, r)
		}
		// Only those who listen get an event that is not stored.
		_, refused := both(with(t, least, "relays.*.refuses=1"), level)
		_, dropped := both(with(t, least, "relays.*.drops=1"), level)
		if dropped <= refused {
			t.Errorf("%s: recall is %v where relays send events and drop them, and %v where they refuse them", level, dropped, refused)
		}
	}
}

// Limits change during a run, and the peak of requests is counted.
func TestLimitsChange(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles modules")
	}
	m := open(t, manifest.WorldStrategy, "layered-v5")[0]
	s := with(t, builtin(t, "small"), "duration=2h", "quiet=1h")
	before := run(t, engine.Config{World: world.Draw(s, 1), Level: result.Wire, Strategy: m, Relays: true})
	changed := *s
	var f scenario.Fault
	f.SetDefaults()
	f.What, f.Keys, f.At, f.For = "limits", "rate.requests.per-minute = 2", 0, scenario.Duration(30*60e9)
	changed.Faults = []scenario.Fault{f}
	after := run(t, engine.Config{World: world.Draw(&changed, 1), Level: result.Wire, Strategy: m})
	if a, b := measure(before, result.RateLimited), measure(after, result.RateLimited); a != 0 || b == 0 {
		t.Errorf("requests over a rate: %v, and %v where the rate falls for half an hour", a, b)
	}
	if c := measure(after, result.Completeness); c != 1 {
		t.Errorf("completeness %v", c)
	}
	most := int64(0)
	for _, r := range before.Relays {
		most = max(most, r.Peak)
		if r.Peak > r.REQs+r.NegOpens {
			t.Errorf("%s: %d requests in a second, of %d", r.Name, r.Peak, r.REQs+r.NegOpens)
		}
	}
	if peak := measure(before, result.PeakRequests); most == 0 || peak != float64(most) {
		t.Errorf("peak requests %v, of the relays %d", peak, most)
	}
}
