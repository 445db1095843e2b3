// Package stats compares variants of the lab, paired by seed: both ran in the same world
// with the same events and faults, so that they cause any difference.
//
// Completeness is exact: an event that one variant has and the other lacks is a loss ([Loss]), at
// any number of seeds.
//
// For each other measure there is an estimate: the median over the seeds of the change. Its 95 %
// confidence interval is exact (order statistics). There is also the exact sign test. Holm's method
// corrects its p-values for the number of statements that are made together: the main measures of
// all variants of a world are one family, the other measures another, and the gates of a comparison
// a third. The package reports a change only if the corrected sign test, the interval and the mean
// agree on it.
//
// Invariants:
//
//  1. The same runs give the same figures: nothing is drawn.
//  2. Only pairs count: a seed that one of the two did not finish is left out, and
//     counted as left out.
//  3. A set of identical variants has a statement of difference in a family with a
//     probability of at most 5 %, whatever the distribution and the number of measures.
package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/result"
)

// Outcomes collects the data of runs for comparisons: the measures and the ends, not the
// series. The order of worlds and variants is that of their first runs.
type Outcomes struct {
	Worlds []*World
}

// World has the outcomes of each variant in one world. In a sweep, it has those of one variant of
// modules in several worlds.
type World struct {
	Name     string
	Variants []*Variant
	sweep    bool // the variants are worlds
}

// Variant has the outcomes of one variant in one world, by seed.
type Variant struct {
	Name    string
	Modules []result.Module // strategy and throttle, as far as there are some
	Runs    []Outcome       // sorted by seed
}

// Outcome is the scalar part of a run.
type Outcome struct {
	Seed     uint64
	Digest   string // of the world
	End      result.End
	Findings int
	Measures result.Values
	Missing  []result.Missing // sorted
	Unlisted int64            // events that are missing, too
}

// Add adds a run. It returns an error for a run that was added before.
func (o *Outcomes) Add(r *result.Run) error {
	return o.add(r, r.World(), r.Variant(), Outcome{r.Seed, r.Scenario.Digest, r.End, len(r.Findings), r.Measures, sortedMissing(r.Missing), r.Unlisted}, false)
}

// AddSwept adds a run to a comparison of worlds: a run with one setting is compared with that of the
// same modules, seed and scenario with another. The two have other events, so that what one lacks is
// no loss of the other. Completeness is a measure like the others there.
func (o *Outcomes) AddSwept(r *result.Run) error {
	return o.add(r, r.Variant()+" in "+r.Scenario.Name+" "+string(r.Level), r.Settings(), Outcome{Seed: r.Seed, End: r.End, Findings: len(r.Findings), Measures: r.Measures}, true)
}

func (o *Outcomes) add(r *result.Run, world, variant string, one Outcome, sweep bool) error {
	w := find(&o.Worlds, world, func(w *World) string { return w.Name }, func(name string) *World { return &World{Name: name, sweep: sweep} })
	v := find(&w.Variants, variant, func(v *Variant) string { return v.Name }, func(name string) *Variant { return &Variant{Name: name} })
	if v.Modules == nil {
		for _, m := range []*result.Module{r.Strategy, r.Throttle} {
			if m != nil {
				v.Modules = append(v.Modules, *m)
			}
		}
	}
	i, ok := v.search(r.Seed)
	if ok {
		return fmt.Errorf("seed %d of %q in %q is there twice", r.Seed, v.Name, w.Name)
	}
	v.Runs = slices.Insert(v.Runs, i, one)
	return nil
}

func find[T any](list *[]*T, name string, nameOf func(*T) string, make func(string) *T) *T {
	if i := slices.IndexFunc(*list, func(x *T) bool { return nameOf(x) == name }); i >= 0 {
		return (*list)[i]
	}
	x := make(name)
	*list = append(*list, x)
	return x
}

func (v *Variant) search(seed uint64) (int, bool) {
	return slices.BinarySearchFunc(v.Runs, seed, func(o Outcome, seed uint64) int { return cmp.Compare(o.Seed, seed) })
}

// Finished returns how many runs finished.
func (v *Variant) Finished() int {
	n := 0
	for i := range v.Runs {
		if v.Runs[i].End.How == result.Finished {
			n++
		}
	}
	return n
}

// Values returns a measure of the runs that finished and have it.
func (v *Variant) Values(m result.Measure) []float64 {
	var list []float64
	for i := range v.Runs {
		if x, ok := v.Runs[i].Measures.Get(m); ok && v.Runs[i].End.How == result.Finished {
			list = append(list, x)
		}
	}
	return list
}

// Comparison is the difference between variant B and variant A.
type Comparison struct {
	World, A, B string
	Pairs       int // seeds that both finished
	LeftOut     int // seeds that only one, or neither, finished
	Unpaired    int // seeds that only one of them has, or in other worlds
	Effects     []Effect
	Losses      []Loss
	Gained      int // events that A lacks and B has
}

// Loss is an event that A has and B lacks.
type Loss struct {
	Seed    uint64
	Missing result.Missing // its ID is "" if the runs do not list which events
}

func (l Loss) String() string {
	if l.Missing.ID == "" {
		return fmt.Sprintf("one in seed %d (the runs do not list which)", l.Seed)
	}
	return fmt.Sprintf("%s of kind %d at %s in seed %d", l.Missing.ID, l.Missing.Kind, strings.Join(l.Missing.Relays, " "), l.Seed)
}

func (c *Comparison) seedsWithLoss() int {
	seeds := make(map[uint64]bool)
	for _, l := range c.Losses {
		seeds[l.Seed] = true
	}
	return len(seeds)
}

func sortedMissing(list []result.Missing) []result.Missing {
	list = slices.Clone(list)
	slices.SortFunc(list, result.Missing.Compare)
	return list
}

// without returns what is in a sorted list and not in another.
func without(list, other []result.Missing) (rest []result.Missing) {
	for _, m := range list {
		if _, ok := slices.BinarySearchFunc(other, m, result.Missing.Compare); !ok {
			rest = append(rest, m)
		}
	}
	return rest
}

// lose notes what one pair lost and gained.
func (c *Comparison) lose(a, b *Outcome) {
	lost := without(b.Missing, a.Missing)
	if a.Unlisted > 0 || b.Unlisted > 0 {
		lost = nil // a list that is cut off does not tell what the other lacks
	}
	for _, m := range lost {
		c.Losses = append(c.Losses, Loss{a.Seed, m})
	}
	before, _ := a.Measures.Get(result.Completeness)
	after, ok := b.Measures.Get(result.Completeness)
	if ok && after < before && len(lost) == 0 {
		c.Losses = append(c.Losses, Loss{Seed: a.Seed})
	}
	c.Gained += len(without(a.Missing, b.Missing))
}

// Compare compares each variant with the first of its world. Holm's correction is over all
// statements of a world.
func (w *World) Compare() []Comparison {
	var list []Comparison
	for _, v := range w.Variants[min(1, len(w.Variants)):] {
		c := compare(w.Variants[0], v, w.sweep)
		c.World = w.Name
		list = append(list, c)
	}
	main := func(m result.Measure) bool {
		return slices.Contains(headline, m) || w.sweep && m == result.Completeness
	}
	correct(list, main)
	correct(list, func(m result.Measure) bool { return !main(m) })
	return list
}

// Between compares two variants that need not be of one world, such as two versions of
// one. The measures of the gates are a family of their own.
func Between(a, b *Variant, gates []Gate) Comparison {
	list := []Comparison{compare(a, b, false)}
	gated := func(m result.Measure) bool {
		return slices.ContainsFunc(gates, func(g Gate) bool { return g.Measure == m })
	}
	correct(list, gated)
	correct(list, func(m result.Measure) bool { return !gated(m) })
	return list[0]
}

func compare(a, b *Variant, sweep bool) Comparison {
	c := Comparison{A: a.Name, B: b.Name}
	var pairs [][2]*Outcome
	for i := range a.Runs {
		one := &a.Runs[i]
		k, ok := b.search(one.Seed)
		if !ok || b.Runs[k].Digest != one.Digest {
			c.Unpaired++
			continue
		}
		if other := &b.Runs[k]; one.End.How == result.Finished && other.End.How == result.Finished {
			pairs = append(pairs, [2]*Outcome{one, other})
		}
	}
	c.LeftOut = len(a.Runs) - c.Unpaired - len(pairs)
	c.Unpaired += len(b.Runs) - (len(a.Runs) - c.Unpaired)
	c.Pairs = len(pairs)
	for _, m := range result.Measures() {
		var x, y []float64
		for _, p := range pairs {
			u, ok := p[0].Measures.Get(m)
			v, ok2 := p[1].Measures.Get(m)
			if ok && ok2 {
				x, y = append(x, u), append(y, v)
			}
		}
		if len(x) > 0 {
			e := effect(m, x, y)
			e.exact = m == result.Completeness && !sweep
			c.Effects = append(c.Effects, e)
		}
	}
	if sweep {
		return c
	}
	for _, p := range pairs {
		c.lose(p[0], p[1])
	}
	if e := c.Effect(result.Completeness); e != nil {
		e.Lost = len(c.Losses)
	}
	return c
}

// correct applies Holm's method to a family of measures. Measures that are equal in all pairs state
// nothing, and exact ones are no matter of chance.
func correct(list []Comparison, family func(result.Measure) bool) {
	var effects []*Effect
	var p []float64
	for i := range list {
		for k := range list[i].Effects {
			if e := &list[i].Effects[k]; e.Lower+e.Higher > 0 && !e.exact && family(e.Measure) {
				effects, p = append(effects, e), append(p, e.P)
			}
		}
	}
	for i, adjusted := range holm(p) {
		effects[i].Adjusted = adjusted
	}
}

// Effect returns the comparison's effect on a measure, or nil.
func (c *Comparison) Effect(m result.Measure) *Effect {
	for i := range c.Effects {
		if c.Effects[i].Measure == m {
			return &c.Effects[i]
		}
	}
	return nil
}

// Gate is a measure that must not get worse, and by how much it may.
type Gate struct {
	Measure result.Measure
	Allow   float64 // a share of the old value; of a measure that is a share, the change itself
}

// ParseGate reads a measure's name, or NAME=N%.
func ParseGate(text string) (Gate, error) {
	name, allow, given := strings.Cut(text, "=")
	m, err := result.ParseMeasure(name)
	if err != nil {
		return Gate{}, err
	}
	g := Gate{Measure: m}
	if given {
		number, ok := strings.CutSuffix(allow, "%")
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !ok || err != nil || !(x >= 0 && x <= 1e6) {
			return Gate{}, fmt.Errorf("%.40q is wrong: want a share, such as %s=5%%", text, name)
		}
		g.Allow = x / 100
	}
	return g, nil
}

// Passes reports whether a measure got worse by no more than Allow. A change that chance
// explains passes. Of completeness, the share of events that are lost counts, without statistics.
func (g Gate) Passes(c *Comparison) bool {
	e := c.Effect(g.Measure)
	if e == nil || e.Verdict() != Worse {
		return true
	}
	if g.Measure == result.Completeness {
		return g.Allow > 0 && e.A-e.B <= g.Allow+1e-12
	}
	by, limit := max(e.Estimate, -e.Estimate), g.Allow
	if !e.Relative && g.Measure.Info().Unit != result.Share {
		limit *= max(e.A, -e.A)
	}
	return by <= limit
}

// Blind returns how many seeds gates need, if with so few pairs one of them passes whatever the
// values are, and otherwise 0. A gate on completeness needs one.
func Blind(gates []Gate, pairs int) (need int) {
	n := 0
	for _, g := range gates {
		if g.Measure != result.Completeness {
			n++
		}
	}
	if n == 0 {
		return 0
	}
	if need = SeedsNeeded(n); pairs >= need {
		return 0
	}
	return need
}

// Broken returns the seeds in which a finished and b did not, or b has more findings.
func Broken(a, b *Variant) []Outcome {
	var list []Outcome
	for i := range b.Runs {
		r := &b.Runs[i]
		k, ok := a.search(r.Seed)
		if !ok || a.Runs[k].Digest != r.Digest {
			continue
		}
		old := &a.Runs[k]
		if r.Findings > old.Findings || r.End.How != result.Finished && old.End.How == result.Finished {
			list = append(list, *r)
		}
	}
	return list
}
