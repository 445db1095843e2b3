package report

import (
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
	slices.SortFunc(points, func(a, b point) int {
		if a.x < b.x {
			return -1
		}
		return 1
	})
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
						y := mean(values)
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
