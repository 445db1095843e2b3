package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
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

// The intervals are those of another implementation (numpy, 400,000 resamples): those of
// fewer resamples are near them.
func TestIntervals(t *testing.T) {
	a := []float64{312, 290, 305, 333, 298, 310, 287, 301, 340, 295, 322, 308}
	b := []float64{201, 214, 190, 250, 188, 205, 199, 230, 210, 180, 240, 195}
	e := effect(result.TotalBytes, a, b)
	if !e.Relative || !near(e.Estimate, -0.3239664955417455, 1e-12) || !near(e.Low, -0.35856, 0.004) || !near(e.High, -0.27905, 0.004) {
		t.Errorf("%+v", e)
	}
	e = effect(result.LoadGini, a, b)
	if e.Relative || !near(e.Estimate, -99.9166666, 1e-6) || !near(e.Low, -111.517, 1) || !near(e.High, -86.828, 1) {
		t.Errorf("%+v", e)
	}
	skewed := []float64{1, 2, 2, 3, 3, 4, 5, 7, 11, 25, 60}
	e = effect(result.StalenessP99, make([]float64, len(skewed)), skewed)
	if e.Relative || !near(e.Low, 3.246, 0.3) || !near(e.High, 73.04, 6) {
		t.Errorf("%+v", e)
	}
	if again := effect(result.StalenessP99, make([]float64, len(skewed)), skewed); again != e {
		t.Errorf("another time %+v, before %+v", again, e)
	}
	for _, c := range [][2][]float64{{{1, 2, 3}, {1, 2, 3}}, {{0, 0}, {0, 0}}, {{2, 2, 2}, {1, 1, 1}}} {
		e := effect(result.REQs, c[0], c[1])
		if e.Low != e.Estimate || e.High != e.Estimate {
			t.Errorf("%v has an interval: %+v", c, e)
		}
	}
	if e := effect(result.REQs, []float64{1}, []float64{2}); !math.IsNaN(e.Low) || e.Verdict() != Indistinct {
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

// In 95 of 100 sets of seeds the interval has the true change in it, of a skewed measure too.
func TestCoverage(t *testing.T) {
	const sets, pairs = 300, 40
	draw := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		name  string
		truth float64
		pair  func() (a, b float64)
	}{
		{"normal", -0.2, func() (a, b float64) {
			weather := 100 + 20*draw.NormFloat64()
			return weather + 5*draw.NormFloat64(), 0.8*weather + 5*draw.NormFloat64()
		}},
		{"log-normal", -0.3, func() (a, b float64) {
			weather := math.Exp(0.7 * draw.NormFloat64())
			return weather * math.Exp(0.3*draw.NormFloat64()), 0.7 * weather * math.Exp(0.3*draw.NormFloat64())
		}},
	} {
		covered := 0
		for range sets {
			a, b := make([]float64, pairs), make([]float64, pairs)
			for i := range a {
				a[i], b[i] = c.pair()
			}
			if e := effect(result.TotalBytes, a, b); e.Low <= c.truth && c.truth <= e.High {
				covered++
			}
		}
		if share := float64(covered) / sets; share < 0.92 || share > 0.98 {
			t.Errorf("%s: %.1f %% of the intervals have the truth in them", c.name, 100*share)
		}
	}
}

// Variants that differ by chance alone are called different in at most one world of 20,
// with however many measures.
func TestFalsePositives(t *testing.T) {
	const worlds, runs = 40, 20
	draw := rand.New(rand.NewPCG(3, 3))
	wrong := 0
	for i := range worlds {
		var o Outcomes
		for seed := range uint64(runs) {
			for _, name := range []string{"a", "b", "c"} {
				r := &result.Run{Scenario: result.Scenario{Name: fmt.Sprint(i)}, Seed: seed, Strategy: &result.Module{Name: name}, End: result.End{How: result.Finished}}
				for _, m := range []result.Measure{result.Completeness, result.StalenessP99, result.BytesUp, result.BytesDown, result.Duplicates, result.REQs} {
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
				different = different || c.Effects[i].Verdict() != Indistinct
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
		{"fewer bytes", "b compared with a: 37 % fewer bytes (36 to 38 %, 40 of 40 seeds); staleness p99 not distinguishable; completeness equal.",
			func(_ uint64, v map[result.Measure]float64) {
				v[result.BytesDown] *= 0.62 + 0.03*draw.NormFloat64()
				v[result.StalenessP99] *= math.Exp(0.5 * draw.NormFloat64())
			}},
		{"more of both", "b compared with a: 3.0 times as many bytes (3.0 to 3.0, 40 of 40 seeds), staleness p99 50 % longer (50 to 50 %, 40 of 40 seeds), completeness 2.0 points lower (2.0 to 2.0, 40 of 40 seeds).",
			func(_ uint64, v map[result.Measure]float64) {
				v[result.BytesDown] *= 3
				v[result.StalenessP99] *= 1.5
				v[result.Completeness] = 0.98
			}},
		{"nothing", "b compared with a: bytes, staleness p99 and completeness equal.", func(uint64, map[result.Measure]float64) {}},
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
	want := "b compared with a: . 1 seed left out, which not both finished. With 2 seeds little can be told apart: take 6 or more."
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
