// Package report shows runs of the lab: as a table on a terminal, and as a page of HTML
// in one file.
//
// Invariants:
//
//  1. The page needs no network: plots are drawn by uPlot, which is in the file with its
//     licence. A policy in the page (CSP) keeps every other script from running.
//  2. Names of modules and relays, and what they say, are data: the page escapes them
//     everywhere.
//  3. A table has the values of each plot as well.
//  4. The size of a page does not grow with the runs beyond what a person can read. If
//     relays, points or sequences are left out, the page says how many, in their place.
package report

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/stats"
)

// worldData is what the plots of a world draw.
type worldData struct {
	Variants     []string      `json:"variants"`
	Completeness []curveData   `json:"completeness"`
	Bytes        []curveData   `json:"bytes"`
	Arrivals     arrivalData   `json:"arrivals"`
	Pareto       []paretoPoint `json:"pareto"`
	Heat         *heatData     `json:"heat"`
}

type curveData struct {
	Times  []float64 `json:"t"`
	Low    []float64 `json:"low"`
	Middle []float64 `json:"middle"`
	High   []float64 `json:"high"`
}

// arrivalData has for each variant the share of events that arrived within a time.
type arrivalData struct {
	Within []float64   `json:"within"`
	Shares [][]float64 `json:"shares"`
}

type paretoPoint struct {
	Bytes float64      `json:"bytes"`
	P99   float64      `json:"p99"`
	Seeds [][2]float64 `json:"seeds"`
}

type heatData struct {
	Relays []string      `json:"relays"`
	Every  float64       `json:"every"`
	Loads  [][][]float64 `json:"loads"` // by variant, relay, time: bytes of a run
}

// sweepData has measures over a variable that was set differently from world to world.
type sweepData struct {
	Key      string        `json:"key"`
	Variants []string      `json:"variants"`
	Values   []float64     `json:"values"`
	Measures []sweptValues `json:"measures"`
}

type sweptValues struct {
	Title string       `json:"title"`
	Unit  string       `json:"unit"`
	Means [][]*float64 `json:"means"` // by variant and value
}

func (r *Report) worldData(i int) worldData {
	o, w := r.Outcomes.Worlds[i], r.worlds[i]
	d := worldData{Variants: []string{}, Completeness: []curveData{}, Bytes: []curveData{}, Pareto: []paretoPoint{}}
	for k, v := range w.variants {
		d.Variants = append(d.Variants, o.Variants[k].Name)
		times, b := bands(v.curves, func(c *curve) []float64 { return c.completeness })
		d.Completeness = append(d.Completeness, curveData{times, b.Low, b.Middle, b.High})
		times, b = bands(v.curves, func(c *curve) []float64 { return c.bytes })
		d.Bytes = append(d.Bytes, curveData{times, b.Low, b.Middle, b.High})
		d.Pareto = append(d.Pareto, pareto(o.Variants[k]))
	}
	d.Arrivals = w.arrivalData()
	d.Heat = w.heatData()
	return d
}

func pareto(v *stats.Variant) paretoPoint {
	p := paretoPoint{Seeds: [][2]float64{}}
	for i := range v.Runs {
		bytes, ok := v.Runs[i].Measures.Get(result.TotalBytes)
		late, ok2 := v.Runs[i].Measures.Get(result.StalenessP99)
		if !ok || !ok2 || v.Runs[i].End.How != result.Finished {
			continue
		}
		p.Bytes += bytes
		p.P99 += late
		p.Seeds = append(p.Seeds, [2]float64{bytes, late})
	}
	if n := float64(len(p.Seeds)); n > 0 {
		p.Bytes /= n
		p.P99 /= n
	}
	if len(p.Seeds) > maxPoints {
		p.Seeds = p.Seeds[:maxPoints]
	}
	return p
}

func (w *world) arrivalData() arrivalData {
	d := arrivalData{Within: []float64{}, Shares: [][]float64{}}
	for _, v := range w.variants {
		for _, b := range v.staleness.Bars() {
			d.Within = append(d.Within, b.LE.Float())
		}
	}
	slices.Sort(d.Within)
	d.Within = slices.Compact(d.Within)
	for _, v := range w.variants {
		bars, total, n, i := v.staleness.Bars(), v.staleness.Total(), uint64(0), 0
		shares := make([]float64, len(d.Within))
		for k, within := range d.Within {
			for i < len(bars) && bars[i].LE.Float() <= within {
				n += bars[i].Count
				i++
			}
			if total > 0 {
				shares[k] = float64(n) / float64(total)
			}
		}
		d.Shares = append(d.Shares, shares)
	}
	return d
}

func (w *world) heatData() *heatData {
	names, _, _ := heat(w.variants)
	d := &heatData{Relays: names}
	for _, v := range w.variants {
		loads := [][]float64{}
		for _, name := range names {
			row := []float64{}
			if l := v.relays[name]; l != nil {
				for _, x := range l.cells {
					row = append(row, x/float64(v.loaded))
				}
			}
			loads = append(loads, row)
		}
		d.Every = max(d.Every, v.every)
		d.Loads = append(d.Loads, loads)
	}
	if len(names) == 0 || d.Every == 0 {
		return nil
	}
	return d
}

// sweep returns measures over a variable, where the worlds differ in one number alone.
func (r *Report) sweep() *sweepData {
	if len(r.worlds) < 2 {
		return nil
	}
	d := &sweepData{}
	for i, w := range r.worlds {
		if w.scenario.Name != r.worlds[0].scenario.Name || w.level != r.worlds[0].level || len(w.set) != len(r.worlds[0].set) {
			return nil
		}
		for k, s := range w.set {
			if first := r.worlds[0].set[k]; s.Key != first.Key || s.Value != first.Value && d.Key != "" && d.Key != s.Key {
				return nil
			} else if s.Value != first.Value {
				d.Key = s.Key
			}
		}
		for _, v := range r.Outcomes.Worlds[i].Variants {
			if !slices.Contains(d.Variants, v.Name) {
				d.Variants = append(d.Variants, v.Name)
			}
		}
	}
	type point struct {
		x float64
		w *stats.World
	}
	var points []point
	for i, w := range r.worlds {
		k := slices.IndexFunc(w.set, func(s result.Setting) bool { return s.Key == d.Key })
		if k < 0 {
			return nil
		}
		x, err := strconv.ParseFloat(w.set[k].Value, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		points = append(points, point{x, r.Outcomes.Worlds[i]})
	}
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	for _, p := range points {
		d.Values = append(d.Values, p.x)
	}
	for _, m := range []result.Measure{result.TotalBytes, result.StalenessP99, result.Completeness, result.RateLimited} {
		s, any := sweptValues{Title: m.Info().Title, Unit: string(m.Info().Unit)}, false
		for _, name := range d.Variants {
			var means []*float64
			for _, p := range points {
				var x *float64
				if k := slices.IndexFunc(p.w.Variants, func(v *stats.Variant) bool { return v.Name == name }); k >= 0 {
					if values := p.w.Variants[k].Values(m); len(values) > 0 {
						y := stats.Mean(values)
						x, any = &y, true
					}
				}
				means = append(means, x)
			}
			s.Means = append(s.Means, means)
		}
		if any {
			d.Measures = append(d.Measures, s)
		}
	}
	return d
}

// Bounds of a page.
const (
	maxPoints = 240 // of a curve
	maxLoad   = 96  // columns of a heat map
	maxRelays = 40  // rows of it
	maxTraces = 24  // sequence diagrams
	maxSteps  = 400 // steps of one
)

// Report gathers runs for a table or a page. It keeps of a run what these show.
type Report struct {
	Outcomes stats.Outcomes
	Swept    stats.Outcomes // the same, by the modules: their runs with one setting against those with another
	worlds   []*world       // as in Outcomes
	traces   int
}

// world has the data that plots need in addition to the outcomes.
type world struct {
	scenario result.Scenario
	level    result.Level
	set      []result.Setting
	variants []*variant // as in the world's outcomes
}

type variant struct {
	modules   []*result.Module
	curves    []curve
	staleness result.Histogram
	every     float64 // seconds between two columns of the load
	relays    map[string]*load
	loaded    int // runs with relays
	seeds     map[uint64]*seed
}

// curve is the series of one run, at most maxPoints of it.
type curve struct {
	every        float64
	completeness []float64
	bytes        []float64
}

// load is the traffic of a relay, summed over the runs.
type load struct {
	class string
	total float64
	cells []float64
}

// seed is what the page says of one run.
type seed struct {
	findings []result.Finding
	faults   []result.Fault
	trace    *result.Trace
	untraced bool // there was a trace, and no room
}

// Read adds the runs of a file.
func (r *Report) Read(file io.Reader) error {
	for run, err := range result.Read(file) {
		if err == nil {
			err = r.Add(run)
		}
		if err != nil {
			return err
		}
	}
	if len(r.Outcomes.Worlds) == 0 {
		return errors.New("no run is in it")
	}
	return nil
}

// Add adds a run.
func (r *Report) Add(run *result.Run) error {
	if err := r.Outcomes.Add(run); err != nil {
		return err
	}
	if err := r.Swept.AddSwept(run); err != nil {
		return err
	}
	i := slices.IndexFunc(r.Outcomes.Worlds, func(w *stats.World) bool { return w.Name == run.World() })
	if i == len(r.worlds) {
		r.worlds = append(r.worlds, &world{scenario: run.Scenario, level: run.Level, set: run.Set})
	}
	w := r.worlds[i]
	k := slices.IndexFunc(r.Outcomes.Worlds[i].Variants, func(v *stats.Variant) bool { return v.Name == run.Variant() })
	if k == len(w.variants) {
		v := &variant{relays: map[string]*load{}, seeds: map[uint64]*seed{}}
		for _, m := range []*result.Module{run.Strategy, run.Throttle} {
			if m != nil {
				v.modules = append(v.modules, m)
			}
		}
		w.variants = append(w.variants, v)
	}
	v := w.variants[k]
	s := &seed{findings: run.Findings, faults: run.Faults}
	if run.Trace != nil {
		if r.traces < maxTraces {
			r.traces++
			s.trace = shorten(run.Trace)
		} else {
			s.untraced = true
		}
	}
	v.seeds[run.Seed] = s
	v.addSeries(&run.Series)
	v.staleness.Merge(&run.Staleness)
	v.addLoad(run)
	return nil
}

func shorten(t *result.Trace) *result.Trace {
	c := *t
	if n := len(c.Steps); n > maxSteps {
		c.Steps = slices.Clone(c.Steps[:maxSteps])
		c.Omitted += int64(n - maxSteps)
	}
	return &c
}

// addSeries keeps every so-many-th value, so that the curve fits, and the last one.
func (v *variant) addSeries(s *result.Series) {
	n := max(len(s.Completeness), len(s.BytesUp), len(s.BytesDown))
	if n == 0 {
		return
	}
	stride := (n + maxPoints - 1) / maxPoints
	c := curve{every: s.Every.Float() * float64(stride)}
	for i := 0; i < len(s.Completeness); i += stride {
		c.completeness = append(c.completeness, s.Completeness[i])
	}
	for i := 0; i < min(len(s.BytesUp), len(s.BytesDown)); i += stride {
		c.bytes = append(c.bytes, float64(s.BytesUp[i])+float64(s.BytesDown[i]))
	}
	v.curves = append(v.curves, c)
}

func (v *variant) addLoad(run *result.Run) {
	if len(run.Relays) == 0 {
		return
	}
	n := 0
	for i := range run.Relays {
		n = max(n, len(run.Relays[i].Load))
	}
	stride := max(1, (n+maxLoad-1)/maxLoad)
	every := run.LoadEvery.Float() * float64(stride)
	if v.loaded > 0 && every != v.every {
		return // a run that was cut short has other columns
	}
	v.every = every
	v.loaded++
	for i := range run.Relays {
		l := &run.Relays[i]
		sum := v.relays[l.Name]
		if sum == nil {
			sum = &load{class: l.Class}
			v.relays[l.Name] = sum
		}
		sum.total += float64(l.BytesUp) + float64(l.BytesDown)
		for k, bytes := range l.Load {
			if k/stride >= len(sum.cells) {
				sum.cells = append(sum.cells, 0)
			}
			sum.cells[k/stride] += float64(bytes)
		}
	}
}

// band is how a curve lies over the runs: a tenth of them below low, half below middle.
type band struct {
	Low, Middle, High []float64
}

// bands returns the quantiles of curves at each time that half of them reach. Curves with
// other times than the first are left out.
func bands(curves []curve, of func(*curve) []float64) (times []float64, b band) {
	var lists [][]float64
	for i := range curves {
		if l := of(&curves[i]); len(l) > 0 && curves[i].every == curves[0].every {
			lists = append(lists, l)
		}
	}
	for at := 0; ; at++ {
		var values []float64
		for _, l := range lists {
			if at < len(l) {
				values = append(values, l[at])
			}
		}
		if len(values) == 0 || 2*len(values) < len(lists) {
			return times, b
		}
		slices.Sort(values)
		times = append(times, float64(at)*curves[0].every)
		b.Low = append(b.Low, stats.Quantile(values, 0.1))
		b.Middle = append(b.Middle, stats.Quantile(values, 0.5))
		b.High = append(b.High, stats.Quantile(values, 0.9))
	}
}

// heat returns the relays with the most traffic over all variants, by class and name, and
// the mean load of a run in each column.
func heat(variants []*variant) (relays []string, classes map[string]string, left int) {
	totals := map[string]float64{}
	classes = map[string]string{}
	for _, v := range variants {
		for name, l := range v.relays {
			totals[name] += l.total
			classes[name] = l.class
		}
	}
	for name := range totals {
		relays = append(relays, name)
	}
	slices.SortFunc(relays, func(a, b string) int { return cmp.Or(cmp.Compare(totals[b], totals[a]), cmp.Compare(a, b)) })
	if len(relays) > maxRelays {
		left = len(relays) - maxRelays
		relays = relays[:maxRelays]
	}
	slices.SortStableFunc(relays, func(a, b string) int { return cmp.Compare(classes[a], classes[b]) })
	return relays, classes, left
}
