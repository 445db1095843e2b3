package report

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/stats"
)

//go:embed page
var files embed.FS

func file(name string) string {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is in the binary
	}
	return string(text)
}

// pageView is what the template shows.
type pageView struct {
	Title, Policy string
	Style         template.CSS
	Library       template.JS
	Script        template.JS
	Licence       string
	Summary       string
	Worlds        []worldView
	Sweep         *sweepData
	Data          any
}

type worldView struct {
	ID, Name string
	Facts    string
	Says     []saying
	Failures []saying
	Variants []variantView
	Measures []measureRow
	Times    []timeRow
	Arrivals arrivalTable
	Relays   *relayTable
	Findings []findingView
	Left     int // findings that are not shown
	Seeds    []seedRow
	LeftOut  int // seeds that are not shown
	Traces   []traceView
	Untraced int
	Needed   int // seeds
}

type saying struct {
	Variant, Color int
	Text           string
}

type variantView struct {
	Color    int
	Name     string
	Finished string
	All      bool // all runs finished
	Modules  []*result.Module
}

type measureRow struct {
	Title, Doc, Better string
	Cells              []measureCell
}

type measureCell struct {
	Value, Change, Range, Verdict string
}

type timeRow struct {
	At    string
	Cells []string
}

type arrivalTable struct {
	Titles []string
	Rows   []timeRow
}

type relayTable struct {
	Rows []relayRow
	Left int
}

type relayRow struct {
	Name, Class string
	Cells       []string
}

type findingView struct {
	Color               int
	Variant             string
	Seed                uint64
	Invariant, At, Text string
	Relay, Prefix       string
	Trace               string // where the sequence is
}

type seedRow struct {
	Seed  uint64
	Cells []seedCell
}

type seedCell struct {
	There               bool
	OK                  bool
	End, Why            string
	Complete, P99, Size string
	Trace               string
}

type traceView struct {
	ID      string
	Color   int
	Variant string
	Seed    uint64
	Relay   string
	End     string
	Faults  []string
	Steps   []stepView
	Omitted string
}

type stepView struct {
	Class, At, What, Text, Size string
	Count                       int64
}

const (
	maxFindings = 50
	maxSeeds    = 500
	colors      = 8
)

// Page writes the report as an HTML page.
func (r *Report) Page(w io.Writer) error {
	view := pageView{Style: template.CSS(file("uplot/uPlot.min.css") + file("style.css")), Library: template.JS(file("uplot/uPlot.iife.min.js")),
		Script: template.JS(file("report.js")), Licence: file("uplot/LICENSE")}
	// html/template writes these scripts as they are.
	view.Policy = fmt.Sprintf("default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; script-src %s %s",
		hash(string(view.Library)), hash(string(view.Script)))
	var data []worldData
	var names []string
	runs := 0
	for i, o := range r.Outcomes.Worlds {
		names = append(names, o.Name)
		for _, v := range o.Variants {
			runs += len(v.Runs)
		}
		view.Worlds = append(view.Worlds, r.worldView(i))
		data = append(data, r.worldData(i))
	}
	view.Title = names[0]
	if len(names) > 1 {
		view.Title = result.Counted(len(names), "world")
	}
	view.Summary = result.Counted(runs, "run")
	view.Sweep = r.sweep()
	view.Data = struct {
		Worlds []worldData `json:"worlds"`
		Sweep  *sweepData  `json:"sweep"`
	}{data, view.Sweep}
	pages := template.Must(template.New("").ParseFS(files, "page/*.html")) // they are in the binary
	return pages.ExecuteTemplate(w, "report.html", view)
}

func hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func (r *Report) worldView(i int) worldView {
	o, w := r.Outcomes.Worlds[i], r.worlds[i]
	comparisons := o.Compare()
	view := worldView{ID: "world-" + strconv.Itoa(i), Name: o.Name}
	seeds := map[uint64]bool{}
	for _, v := range o.Variants {
		for k := range v.Runs {
			seeds[v.Runs[k].Seed] = true
		}
	}
	view.Facts = fmt.Sprintf("%s of %s, %s, %s level", result.Counted(len(seeds), "seed"), span(w.scenario.Duration.Float()), result.Counted(len(o.Variants), "variant"), w.level)
	for k := range comparisons {
		view.Says = append(view.Says, saying{k + 1, (k + 1) % colors, comparisons[k].Sentence()})
	}
	for k, v := range o.Variants {
		view.Variants = append(view.Variants, variantView{k % colors, v.Name, fmt.Sprintf("%d of %d", v.Finished(), len(v.Runs)), v.Finished() == len(v.Runs), w.variants[k].modules})
		if n := len(v.Runs) - v.Finished(); n > 0 {
			view.Failures = append(view.Failures, saying{k, k % colors, fmt.Sprintf("%s did not finish %d of %s.", v.Name, n, result.Counted(len(v.Runs), "run"))})
		}
	}
	for _, m := range measuresOf(o) {
		info := m.Info()
		row := measureRow{Title: info.Title, Doc: info.Doc, Better: "lower"}
		if info.Higher {
			row.Better = "higher"
		}
		for k, v := range o.Variants {
			row.Cells = append(row.Cells, measured(v, comparisonOf(comparisons, k), m))
		}
		view.Measures = append(view.Measures, row)
	}
	view.Times = w.times()
	view.Arrivals = w.arrivals()
	view.Relays = w.relayTable()
	r.addRuns(&view, o, w)
	return view
}

func measured(v *stats.Variant, c *stats.Comparison, m result.Measure) measureCell {
	values := v.Values(m)
	if len(values) == 0 {
		return measureCell{Value: "–"}
	}
	cell := measureCell{Value: format(stats.Mean(values), m.Info().Unit)}
	if c == nil {
		return cell
	}
	e := c.Effect(m)
	if e == nil {
		return cell
	}
	cell.Verdict = [...]string{"same", "same", "better", "worse"}[e.Verdict()]
	switch e.Verdict() {
	case stats.Equal:
		cell.Change = "equal"
	case stats.Indistinct:
		cell.Change = "not distinguishable"
		cell.Range = e.Counts()
	default:
		cell.Change = strings.Replace(change(e), "-", "−", 1)
		cell.Range = c.Statement(m)
	}
	return cell
}

// times is the table behind the curves: ten times, with completeness and bytes.
func (w *world) times() []timeRow {
	var rows []timeRow
	type columns struct {
		times           []float64
		complete, bytes band
	}
	var list []columns
	longest := -1
	for i, v := range w.variants {
		var c columns
		c.times, c.complete = bands(v.curves, func(c *curve) []float64 { return c.completeness })
		_, c.bytes = bands(v.curves, func(c *curve) []float64 { return c.bytes })
		list = append(list, c)
		if longest < 0 || len(c.times) > len(list[longest].times) {
			longest = i
		}
	}
	if longest < 0 || len(list[longest].times) == 0 {
		return nil
	}
	n := len(list[longest].times)
	for at := 0; at < n; at += max(1, (n-1)/10) {
		t := list[longest].times[at]
		row := timeRow{At: span(t)}
		for _, c := range list {
			row.Cells = append(row.Cells, valueAt(c.times, c.complete.Middle, t, result.Share), valueAt(c.times, c.bytes.Middle, t, result.Bytes))
		}
		rows = append(rows, row)
	}
	return rows
}

func valueAt(times, values []float64, t float64, u result.Unit) string {
	i, ok := slices.BinarySearch(times, t)
	if !ok || i >= len(values) {
		return "–"
	}
	return format(values[i], u)
}

// arrivals is the table behind the distribution of staleness.
func (w *world) arrivals() arrivalTable {
	t := arrivalTable{}
	parts := []float64{0.1, 0.5, 0.9, 0.99, 0.999, 1}
	for _, p := range parts {
		t.Titles = append(t.Titles, trimmed(100*p, 1)+" %")
	}
	t.Titles = append(t.Titles, "never")
	for _, v := range w.variants {
		var row timeRow
		for _, p := range parts {
			cell := "never"
			if d, ok := v.staleness.Quantile(p); ok {
				cell = "≤ " + span(d.Seconds())
			}
			row.Cells = append(row.Cells, cell)
		}
		total := v.staleness.Total()
		if total == 0 {
			continue
		}
		row.Cells = append(row.Cells, fmt.Sprintf("%d of %d", v.staleness.Missing, total))
		row.At = nameOf(v.modules)
		t.Rows = append(t.Rows, row)
	}
	return t
}

func nameOf(modules []*result.Module) string {
	r := result.Run{Strategy: modules[0]}
	if len(modules) > 1 {
		r.Throttle = modules[1]
	}
	return r.Variant()
}

func (w *world) relayTable() *relayTable {
	names, classes, left := heat(w.variants)
	if len(names) == 0 {
		return nil
	}
	t := &relayTable{Left: left}
	for _, name := range names {
		row := relayRow{Name: name, Class: classes[name]}
		for _, v := range w.variants {
			cell := "–"
			if l := v.relays[name]; l != nil {
				cell = format(l.total/float64(v.loaded), result.Bytes)
			}
			row.Cells = append(row.Cells, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// addRuns adds findings, seeds and sequences.
func (r *Report) addRuns(view *worldView, o *stats.World, w *world) {
	rows := map[uint64][]seedCell{}
	var order []uint64
	for k, v := range o.Variants {
		for i := range v.Runs {
			run := &v.Runs[i]
			if rows[run.Seed] == nil {
				rows[run.Seed] = make([]seedCell, len(o.Variants))
				order = append(order, run.Seed)
			}
			s := w.variants[k].seeds[run.Seed]
			cell := seedCell{There: true, OK: run.End.How == result.Finished && run.Findings == 0, End: endText(result.End{How: run.End.How, At: run.End.At}, run.Findings), Why: run.End.Reason,
				Complete: valueOf(run, result.Completeness), P99: valueOf(run, result.StalenessP99), Size: valueOf(run, result.TotalBytes)}
			if s.trace != nil {
				t := traceOf(s, run)
				t.ID = fmt.Sprintf("%s-%d-%d", view.ID, k, run.Seed)
				t.Color, t.Variant = k%colors, v.Name
				cell.Trace = t.ID
				view.Traces = append(view.Traces, t)
			}
			if s.untraced {
				view.Untraced++
			}
			rows[run.Seed][k] = cell
			for _, f := range s.findings {
				if len(view.Findings) == maxFindings {
					view.Left++
					continue
				}
				one := findingView{Color: k % colors, Variant: v.Name, Seed: run.Seed, Invariant: f.Invariant, At: span(f.At.Float()), Text: f.Text, Relay: f.Relay, Trace: cell.Trace}
				if p := f.Prefix; p != nil {
					one.Prefix = fmt.Sprintf("%s and %s until %s show it", result.Counted(len(p.Events), "event"), result.Counted(len(p.Faults), "fault"), span(p.Until.Float()))
				}
				view.Findings = append(view.Findings, one)
			}
		}
	}
	slices.Sort(order)
	if len(order) > maxSeeds {
		view.LeftOut = len(order) - maxSeeds
		order = order[:maxSeeds]
	}
	for _, n := range order {
		view.Seeds = append(view.Seeds, seedRow{n, rows[n]})
	}
	slices.SortStableFunc(view.Traces, func(a, b traceView) int { return cmp.Compare(a.Seed, b.Seed) })
}

func valueOf(run *stats.Outcome, m result.Measure) string {
	x, ok := run.Measures.Get(m)
	if !ok {
		return "–"
	}
	return format(x, m.Info().Unit)
}

func traceOf(s *seed, run *stats.Outcome) traceView {
	t := traceView{Seed: run.Seed, Relay: s.trace.Relay, End: endText(run.End, run.Findings)}
	for i, f := range s.faults {
		if i == 20 {
			t.Faults = append(t.Faults, fmt.Sprintf("and %d more", len(s.faults)-i))
			break
		}
		text := f.Kind
		if f.Where != "" {
			text += " of " + f.Where
		}
		text += fmt.Sprintf(" from %s to %s", span(f.At.Float()), span(f.Until.Float()))
		if f.Recovered != nil {
			text += ", recovered in " + span(f.Recovered.Float())
		}
		t.Faults = append(t.Faults, text)
	}
	for _, step := range s.trace.Steps {
		view := stepView{Class: "line", At: clock(step.At.Float()), What: step.What, Text: step.Text, Count: step.Count}
		switch step.Direction {
		case result.Up, result.Down, result.Here:
			view.Class = string(step.Direction)
		}
		if step.Bytes > 0 {
			view.Size = format(float64(step.Bytes), result.Bytes)
		}
		t.Steps = append(t.Steps, view)
	}
	if s.trace.Omitted > 0 {
		t.Omitted = result.Counted(int(s.trace.Omitted), "later step")
	}
	return t
}
