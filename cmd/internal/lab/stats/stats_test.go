package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"talon/cmd/internal/lab/result"
)

func near(got, want, within float64) bool { return math.Abs(got-want) <= within }

// The values are those of scipy.stats.binomtest.
func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		lower, higher int
		p             float64
	}{
		{0, 5, 0.0625}, {5, 0, 0.0625}, {3, 7, 0.34375}, {140, 60, 1.507061557352626e-08}, {100, 100, 1}, {200, 0, 1.2446030555722283e-60},
		{1, 0, 1}, {30, 70, 7.85013964559367e-05}, {0, 0, 1},
	} {
		if p := signTest(c.lower, c.higher); !near(p, c.p, 1e-9*c.p) {
			t.Errorf("%d to %d: %v, want %v", c.lower, c.higher, p, c.p)
		}
	}
}

// TestIntervals compares intervals of the median with the ranks in tables of the binomial
// distribution: for 12 values the third and the tenth, for 40 the fourteenth and the twenty-seventh.
func TestIntervals(t *testing.T) {
	for _, c := range []struct{ n, low, high int }{{1, 1, 1}, {2, 1, 2}, {5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {10, 2, 9}, {12, 3, 10}, {20, 6, 15}, {40, 14, 27}, {100, 40, 61}} {
		list := make([]float64, c.n)
		for i := range list {
			list[i] = float64(i + 1)
		}
		if low, high := interval(list); low != float64(c.low) || high != float64(c.high) {
			t.Errorf("%d values: %v to %v, want %d to %d", c.n, low, high, c.low, c.high)
		}
	}
	e := effect(result.TotalBytes, []float64{100, 200, 400}, []float64{50, 120, 160})
	if !e.Relative || !near(e.Estimate, -0.5, 1e-12) || !near(e.Low, -0.6, 1e-12) || !near(e.High, -0.4, 1e-12) {
		t.Errorf("%+v", e)
	}
	e = effect(result.StalenessP99, []float64{0, 1, 2}, []float64{1, 4, 3})
	if e.Relative || e.Estimate != 1 || e.Low != 1 || e.High != 3 {
		t.Errorf("%+v", e)
	}
	if e := effect(result.REQs, []float64{1}, []float64{2}); e.Verdict() != Indistinct {
		t.Errorf("one pair says something: %+v", e)
	}
}

// The values are those of R's p.adjust.
func TestHolm(t *testing.T) {
	got := holm([]float64{0.01, 0.04, 0.03, 0.005, 0.5})
	for i, want := range []float64{0.04, 0.09, 0.09, 0.025, 0.5} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("%v", got)
		}
	}
	if got := holm(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestCoverage shows that in 95 of 100 sets of seeds or more the interval has the true change of the
// median in it, of a skewed measure too.
func TestCoverage(t *testing.T) {
	const sets = 1000
	draw := rand.New(rand.NewPCG(7, 7))
	for _, pairs := range []int{10, 40} {
		for _, spread := range []float64{0.05, 1.5} {
			covered := 0
			for range sets {
				a, b := make([]float64, pairs), make([]float64, pairs)
				for i := range a {
					a[i] = math.Exp(2 * draw.NormFloat64())
					b[i] = 0.7 * a[i] * math.Exp(spread*draw.NormFloat64())
				}
				if e := effect(result.TotalBytes, a, b); e.Low <= -0.3 && -0.3 <= e.High {
					covered++
				}
			}
			if share := float64(covered) / sets; share < 0.94 {
				t.Errorf("%d pairs, spread %v: %.1f %% of the intervals have the truth in them", pairs, spread, 100*share)
			}
		}
	}
}

// TestPlanted plants differences of known size. One of a tenth in all of ten seeds is found, also if
// the seeds differ a thousandfold, and the p99 that an eye sees.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(seed uint64, v map[result.Measure]float64)
		of     result.Measure
		want   Verdict
	}{
		{"a tenth more bytes", func(_ uint64, v map[result.Measure]float64) { v[result.BytesDown] *= 1.1 }, result.TotalBytes, Worse},
		{"a tenth fewer bytes", func(_ uint64, v map[result.Measure]float64) { v[result.BytesDown] *= 0.9 }, result.TotalBytes, Better},
		{"11 minutes and 7.8 hours", func(seed uint64, v map[result.Measure]float64) { v[result.StalenessP99] = 660 + 27_000*float64(seed%5) }, result.StalenessP99, Worse},
		{"one of ten seeds", func(seed uint64, v map[result.Measure]float64) {
			if seed == 3 {
				v[result.BytesDown] *= 2
			}
		}, result.TotalBytes, Indistinct},
	} {
		draw := rand.New(rand.NewPCG(11, 11))
		var o Outcomes
		for seed := range uint64(10) {
			values := map[result.Measure]float64{result.BytesUp: 1, result.BytesDown: math.Exp(15 + 3*draw.NormFloat64()), result.StalenessP99: 600}
			for _, m := range []result.Measure{result.ConnectionHours, result.RecoveryMax, result.GitRequests, result.GitRefusals, result.DataP99} {
				values[m] = 1 + float64(draw.IntN(2))
			}
			if err := o.Add(run("a", seed, values)); err != nil {
				t.Fatal(err)
			}
			c.change(seed, values)
			for _, m := range []result.Measure{result.ConnectionHours, result.RecoveryMax, result.GitRequests, result.GitRefusals, result.DataP99} {
				values[m] = 1 + float64(draw.IntN(2))
			}
			if err := o.Add(run("b", seed, values)); err != nil {
				t.Fatal(err)
			}
		}
		if e := o.Worlds[0].Compare()[0].Effect(c.of); e.Verdict() != c.want {
			t.Errorf("%s: %v, want %v: %+v", c.name, e.Verdict(), c.want, e)
		}
	}
}

// TestLoss loses one event of 10,000 in one of three seeds, and another time loses one and has
// another.
func TestLoss(t *testing.T) {
	missing := func(id string) result.Missing {
		return result.Missing{ID: id, Kind: 1, Talon: "talon-0", Relays: []string{"strfry-0"}}
	}
	with := func(name string, seed uint64, completeness float64, list ...result.Missing) *result.Run {
		r := run(name, seed, map[result.Measure]float64{result.Completeness: completeness, result.REQs: 3})
		r.Missing = list
		return r
	}
	for _, c := range []struct {
		name           string
		a, b           *result.Run
		losses, gained int
	}{
		{"one of 10,000", with("a", 2, 1), with("b", 2, 0.9999, missing("x")), 1, 0},
		{"one, and not another", with("a", 2, 0.9999, missing("y")), with("b", 2, 0.9999, missing("x")), 1, 1},
		{"none", with("a", 2, 0.9999, missing("y")), with("b", 2, 0.9999, missing("y")), 0, 0},
		{"gained", with("a", 2, 0.9999, missing("y")), with("b", 2, 1), 0, 1},
		{"not listed", with("a", 2, 1), with("b", 2, 0.9999), 1, 0},
	} {
		var o Outcomes
		for _, r := range []*result.Run{with("a", 0, 1), with("b", 0, 1), with("a", 1, 1), with("b", 1, 1), c.a, c.b} {
			if err := o.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		got := o.Worlds[0].Compare()[0]
		if len(got.Losses) != c.losses || got.Gained != c.gained {
			t.Errorf("%s: %v, gained %d", c.name, got.Losses, got.Gained)
		}
		if pass := (Gate{Measure: result.Completeness}).Passes(&got); pass != (c.losses == 0) {
			t.Errorf("%s: passes: %v", c.name, pass)
		}
		if want := map[bool]string{true: "b compared with a: LOST 1 event that a has"}[c.losses > 0]; !strings.HasPrefix(got.Sentence(), want) {
			t.Errorf("%s: %s", c.name, got.Sentence())
		}
	}
}

// TestBlind shows which gates pass whatever happens.
func TestBlind(t *testing.T) {
	gates := func(list ...result.Measure) (all []Gate) {
		for _, m := range list {
			all = append(all, Gate{Measure: m})
		}
		return all
	}
	for _, c := range []struct {
		gates       []Gate
		pairs, need int
	}{
		{gates(result.Completeness), 1, 0}, {gates(result.TotalBytes), 5, 6}, {gates(result.TotalBytes), 6, 0},
		{gates(result.Completeness, result.TotalBytes, result.StalenessP99), 6, 7}, {gates(result.Completeness, result.TotalBytes, result.StalenessP99), 7, 0},
	} {
		if need := Blind(c.gates, c.pairs); need != c.need {
			t.Errorf("%v with %d pairs need %d, want %d", c.gates, c.pairs, need, c.need)
		}
		worst := Effect{Measure: result.TotalBytes, Relative: true, Estimate: 1, Low: 1, High: 1, Widest: 1, A: 1, B: 2, Higher: c.pairs, P: signTest(0, c.pairs)}
		n := max(1, len(c.gates)-1)
		worst.Adjusted = min(1, worst.P*float64(n))
		if fails := worst.Verdict() == Worse; c.pairs > 1 && fails != (c.need == 0) {
			t.Errorf("%v with %d pairs: the worst is called worse: %v", c.gates, c.pairs, fails)
		}
	}
}

// TestFalsePositives has variants that differ by chance alone: at most one world of 20 has a
// statement of difference about its main measures.
func TestFalsePositives(t *testing.T) {
	const worlds, runs = 1000, 20
	draw := rand.New(rand.NewPCG(3, 3))
	wrong := 0
	for i := range worlds {
		var o Outcomes
		for seed := range uint64(runs) {
			for _, name := range []string{"a", "b", "c"} {
				r := &result.Run{Scenario: result.Scenario{Name: fmt.Sprint(i)}, Seed: seed, Strategy: &result.Module{Name: name}, End: result.End{How: result.Finished}}
				for _, m := range []result.Measure{result.RecoveryMax, result.StalenessP99, result.BytesUp, result.BytesDown, result.ConnectionHours} {
					r.Measures.Set(m, math.Exp(2*draw.NormFloat64()))
				}
				if err := o.Add(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		different := false
		for _, c := range o.Worlds[0].Compare() {
			for i := range c.Effects {
				different = different || slices.Contains(headline, c.Effects[i].Measure) && c.Effects[i].Verdict() != Indistinct
			}
		}
		if different {
			wrong++
		}
	}
	if wrong > worlds/20 {
		t.Errorf("%d of %d worlds show a difference that is chance", wrong, worlds)
	}
}

// The tests and their correction alone, over more worlds.
func TestFalsePositivesOfTheSignTest(t *testing.T) {
	const worlds = 4000
	draw := rand.New(rand.NewPCG(5, 5))
	wrong, uncorrected := 0, 0
	for range worlds {
		var p []float64
		for range 24 {
			lower := 0
			for range 200 {
				lower += draw.IntN(2)
			}
			p = append(p, signTest(lower, 200-lower))
		}
		one := func(list []float64) int {
			for _, x := range list {
				if x < significant {
					return 1
				}
			}
			return 0
		}
		wrong += one(holm(p))
		uncorrected += one(p)
	}
	if wrong > worlds/20 || wrong < worlds/100 {
		t.Errorf("%d of %d", wrong, worlds)
	}
	if uncorrected < worlds/2 {
		t.Errorf("without the correction only %d of %d: the test sees nothing", uncorrected, worlds)
	}
}

// run is a finished run with some measures.
func run(name string, seed uint64, values map[result.Measure]float64) *result.Run {
	r := &result.Run{Scenario: result.Scenario{Name: "small"}, Level: result.Model, Seed: seed, Strategy: &result.Module{Name: name}, End: result.End{How: result.Finished}}
	for _, m := range result.Measures() {
		if x, ok := values[m]; ok {
			r.Measures.Set(m, x)
		}
	}
	return r
}

// world has 40 seeds of a, and of b with what change makes of a's values.
func world(t *testing.T, change func(seed uint64, values map[result.Measure]float64)) *World {
	t.Helper()
	draw := rand.New(rand.NewPCG(9, 9))
	var o Outcomes
	for seed := range uint64(40) {
		values := map[result.Measure]float64{
			result.Completeness: 1, result.StalenessP99: 10 * math.Exp(draw.NormFloat64()), result.BytesUp: 1000, result.BytesDown: 1e6 + 1e5*draw.NormFloat64(),
			result.Duplicates: float64(draw.IntN(3)),
		}
		if err := o.Add(run("a", seed, values)); err != nil {
			t.Fatal(err)
		}
		change(seed, values)
		if err := o.Add(run("b", seed, values)); err != nil {
			t.Fatal(err)
		}
	}
	return o.Worlds[0]
}

func TestSentences(t *testing.T) {
	draw := rand.New(rand.NewPCG(4, 4))
	for _, c := range []struct {
		name, want string
		change     func(seed uint64, v map[result.Measure]float64)
	}{
		{"fewer bytes", "b compared with a: completeness equal; 37 % fewer bytes (36 to 39 %, 40 of 40 seeds); staleness p99 not distinguishable (-14 %, -22 to 39 %; shorter in 21, longer in 19).",
			func(_ uint64, v map[result.Measure]float64) {
				v[result.BytesDown] *= 0.62 + 0.03*draw.NormFloat64()
				v[result.StalenessP99] *= math.Exp(0.5 * draw.NormFloat64())
			}},
		{"more of both", "b compared with a: LOST 40 events that a has (completeness 2.0 points lower), in 40 of 40 seeds, such as one in seed 0 (the runs do not list which); 3.0 times as many bytes (3.0 to 3.0, 40 of 40 seeds), staleness p99 50 % longer (50 to 50 %, 40 of 40 seeds).",
			func(_ uint64, v map[result.Measure]float64) {
				v[result.BytesDown] *= 3
				v[result.StalenessP99] *= 1.5
				v[result.Completeness] = 0.98
			}},
		{"nothing", "b compared with a: completeness equal; bytes and staleness p99 equal.", func(uint64, map[result.Measure]float64) {}},
	} {
		got := world(t, c.change).Compare()
		if len(got) != 1 || got[0].Sentence() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got[0].Sentence(), c.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	w := world(t, func(seed uint64, v map[result.Measure]float64) {
		v[result.Completeness] = 0.9
		v[result.BytesDown] /= 2
		v[result.BytesUp] *= 1.0001 // certain, and of no weight
		if seed == 0 {
			v[result.StalenessP99] *= 1e6 // one seed carries the mean
		} else {
			v[result.StalenessP99] *= 0.99
		}
	})
	c := w.Compare()[0]
	for m, want := range map[result.Measure]Verdict{result.Completeness: Worse, result.BytesDown: Better, result.BytesUp: Equal, result.StalenessP99: Indistinct, result.Duplicates: Equal} {
		if got := c.Effect(m).Verdict(); got != want {
			t.Errorf("%v: %v, want %v: %+v", m, got, want, *c.Effect(m))
		}
	}
	if c.Effect(result.Fuel) != nil {
		t.Error("fuel was not measured")
	}
}

// Only seeds that both finished in the same world are pairs.
func TestPairs(t *testing.T) {
	var o Outcomes
	add := func(r *result.Run) {
		t.Helper()
		if err := o.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	values := map[result.Measure]float64{result.REQs: 3}
	for _, seed := range []uint64{5, 1, 4, 2, 3} {
		a, b := run("a", seed, values), run("b", seed, values)
		switch seed {
		case 2:
			b.End.How = result.BrokenInvariant
		case 3:
			b.Scenario.Digest = "other"
		}
		add(a)
		if seed != 4 {
			add(b)
		}
	}
	add(run("b", 9, values))
	c := o.Worlds[0].Compare()[0]
	// Left out: 2. Unpaired: 3 on both sides, 4, 9.
	if c.Pairs != 2 || c.LeftOut != 1 || c.Unpaired != 4 || c.Effect(result.REQs).Pairs != 2 {
		t.Errorf("%+v", c)
	}
	want := "b compared with a: . 1 seed left out, which not both finished. With 2 seeds little can be told apart: take 9 or more."
	if got := c.Sentence(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := o.Add(run("a", 5, values)); err == nil || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("%v", err)
	}
	if v := o.Worlds[0].Variants[1]; v.Finished() != 4 || !reflect.DeepEqual(v.Values(result.REQs), []float64{3, 3, 3, 3}) {
		t.Errorf("%d finished, %v", v.Finished(), v.Values(result.REQs))
	}
	empty := Comparison{A: "a", B: "b"}
	if got := empty.Sentence(); !strings.Contains(got, "cannot be compared") {
		t.Error(got)
	}
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.00123: "0.0012", 0.3: "0.30", 0.994: "0.99", 0.996: "1.0", 3.14159: "3.1", 9.96: "10", 38.2: "38", 1234.5: "1234", -0.5: "-0.50", 1e-12: "0.000000"} {
		if got := digits(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

// A sweep pairs runs of different worlds by seed. It counts no losses, since the worlds may have different
// events.
func TestSwept(t *testing.T) {
	var o Outcomes
	add := func(seed uint64, value string, completeness, bytes float64) {
		r := run("s", seed, map[result.Measure]float64{result.Completeness: completeness, result.BytesUp: bytes, result.BytesDown: bytes})
		r.Scenario.Digest = value
		r.Set = []result.Setting{{Key: "relays.*.keeps", Value: value}}
		if completeness < 1 {
			r.Missing = []result.Missing{{ID: fmt.Sprint(seed)}}
		}
		if err := o.AddSwept(r); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(16) {
		noise := 1 + float64(seed%4)/100
		add(seed, "90d", 1, 100*noise)
		add(seed, "60d", []float64{1, 0.99}[seed%2], 99*noise)
		add(seed, "30d", 0.9, 50*noise)
	}
	if len(o.Worlds) != 1 || len(o.Worlds[0].Variants) != 3 || o.Worlds[0].Variants[1].Name != "relays.*.keeps=60d" {
		t.Fatalf("%+v", o.Worlds)
	}
	list := o.Worlds[0].Compare()
	for i, want := range []string{
		"relays.*.keeps=60d compared with relays.*.keeps=90d: completeness ",
		"relays.*.keeps=30d compared with relays.*.keeps=90d: completeness 10 points lower (10 to 10, 16 of 16 seeds); 50 % fewer bytes (50 to 50 %, 16 of 16 seeds).",
	} {
		if c := list[i]; c.Pairs != 16 || len(c.Losses) > 0 || c.Gained > 0 || !strings.HasPrefix(c.Sentence(), want) {
			t.Errorf("%d pairs, %d losses: %s, want %s", c.Pairs, len(c.Losses), c.Sentence(), want)
		}
	}
}
