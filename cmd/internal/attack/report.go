package attack

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Result is the outcome of one attack.
type Result struct {
	Name       string               `json:"name"`
	Text       string               `json:"text"`
	Count      int                  `json:"count"`
	Unit       string               `json:"unit"`
	Operations map[string]Operation `json:"operations"`
	Refusals   []string             `json:"refusals,omitempty"` // examples
	Before     Usage                `json:"before"`
	Peak       Usage                `json:"peak"`
	After      Usage                `json:"after"`
	Outcome
	Crash     string   `json:"crash,omitempty"` // why the process ended
	LoadAlone string   `json:"load_alone"`      // load of the machine before each phase
	Load      string   `json:"load"`
	Findings  []string `json:"findings,omitempty"` // criteria that were not met

	ProcessorAlone Processor `json:"processor_alone"`
	Processor      Processor `json:"processor"`

	attack       *Attack
	alone, under *Samples
}

// Verdict is the outcome of several attacks.
type Verdict struct {
	OK      bool      `json:"ok"`
	Fail    []string  `json:"fail"` // names of the attacks that honest people notice
	Busy    []string  `json:"busy"` // names of those whose times say little: other programs worked
	Results []*Result `json:"results"`
}

// busyMachine is the share of the machine that other programs may use while times are measured.
const busyMachine = 0.15

// Judge compares each attack with what honest people met before all of them. One phase before an
// attack is short: its p99 is the slowest of few operations. Runs of one attack count together.
func Judge(results []*Result) *Verdict {
	alone, under := newSamples(), make(map[string]*Samples)
	for _, r := range results {
		alone.addAll(r.alone)
		if under[r.Name] == nil {
			under[r.Name] = newSamples()
		}
		under[r.Name].addAll(r.under)
	}
	v := &Verdict{OK: true, Fail: []string{}, Busy: []string{}, Results: results}
	for _, r := range results {
		r.compare(r.attack, alone, under[r.Name])
		if !r.OK() {
			v.OK, v.Fail = false, append(v.Fail, r.Name)
		}
		if max(r.ProcessorAlone.Others, r.Processor.Others) > busyMachine {
			v.Busy = append(v.Busy, r.Name)
		}
	}
	return v
}

// Operation compares one operation of honest people.
type Operation struct {
	Alone  Quantiles `json:"alone"`
	Attack Quantiles `json:"attack"`
	MaxP99 float64   `json:"most_p99_ms"`
	OK     bool      `json:"ok"`
}

// OK reports whether all criteria were met.
func (r *Result) OK() bool { return len(r.Findings) == 0 }

// compare fills in the operations and the findings.
func (r *Result) compare(a *Attack, alone, under *Samples) {
	if r.Crash != "" {
		r.Findings = append(r.Findings, "the server ended: "+r.Crash)
	}
	for _, name := range operations {
		o := Operation{Alone: alone.quantiles(name), Attack: under.quantiles(name)}
		o.MaxP99 = slower * o.Alone.P99
		switch {
		case slices.Contains(a.Twice, name):
			o.MaxP99 = 2 * o.Alone.P99
		case !isGit(name):
			o.MaxP99 = max(o.MaxP99, socketFloor)
		}
		o.OK = o.Attack.P99 <= o.MaxP99 && o.Attack.N > 0 && o.Attack.Refusals == 0
		switch {
		case o.Alone.N == 0 || o.Attack.N == 0:
			r.Findings = append(r.Findings, name+": nobody got so far")
		case o.Attack.P99 > o.MaxP99:
			r.Findings = append(r.Findings, fmt.Sprintf("%s: p99 %.0f ms, at most %.0f are right", name, o.Attack.P99, o.MaxP99))
		}
		r.Operations[name] = o
	}
	if n, examples := r.alone.refusals(); n > 0 {
		r.Refusals = examples
		r.Findings = append(r.Findings, fmt.Sprintf("%d operations were refused before the attack", n))
	}
	if n, examples := under.refusals(); n > 0 {
		r.Refusals = append(r.Refusals, examples...)
		r.Findings = append(r.Findings, fmt.Sprintf("%d operations of honest people were refused", n))
	}
	if r.Crash == "" {
		r.Findings = append(r.Findings, r.After.findings(r.Before, a.disk())...)
	}
	for name, most := range a.Max {
		if got := r.Figures[name]; got > most {
			r.Findings = append(r.Findings, fmt.Sprintf("%s: %d, at most %d are right", name, got, most))
		}
	}
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// Print writes a result as text.
func (r *Result) Print(w io.Writer) {
	verdict := "withstands"
	if !r.OK() {
		verdict = "FAILS"
	}
	fmt.Fprintf(w, "%s: %s (%d %s): %s\n", r.Name, r.Text, r.Count, r.Unit, verdict)
	fmt.Fprintf(w, "  %-10s %14s %14s %14s %9s %9s\n", "", "alone p50/p99", "attack p50/p99", "most p99 (ms)", "refused", "n")
	for _, name := range operations {
		o := r.Operations[name]
		mark := ""
		if !o.OK {
			mark = "  !"
		}
		fmt.Fprintf(w, "  %-10s %6.0f %7.0f %6.0f %7.0f %14.0f %9d %9d%s\n", name, o.Alone.P50, o.Alone.P99, o.Attack.P50, o.Attack.P99, o.MaxP99, o.Attack.Refusals, o.Attack.N, mark)
	}
	usage := func(u Usage) string {
		return fmt.Sprintf("disk %s, files %d, memory %s, children %d (stopped %d), descriptors %d",
			megabytes(u.Disk), u.Files, megabytes(u.Memory), u.Children, u.Stopped, u.Sockets)
	}
	fmt.Fprintf(w, "  before  %s\n  peak    %s\n  after   %s\n", usage(r.Before), usage(r.Peak), usage(r.After))
	var figures []string
	for name, n := range r.Figures {
		figures = append(figures, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(figures)
	fmt.Fprintf(w, "  attackers: %s; load of the machine %s alone, %s before the attack\n", strings.Join(figures, ", "), r.LoadAlone, r.Load)
	fmt.Fprintf(w, "  processor time in s: the server %.1f, attackers %.1f, honest people %.1f (alone %.1f, %.1f, %.1f); other programs used %.0f %% of the machine (%.0f %%)\n",
		r.Processor.Server, r.Processor.Attackers, r.Processor.Honest, r.ProcessorAlone.Server, r.ProcessorAlone.Attackers, r.ProcessorAlone.Honest,
		100*r.Processor.Others, 100*r.ProcessorAlone.Others)
	if r.Said != "" {
		fmt.Fprintf(w, "  the server refused attackers: %q\n", r.Said)
	}
	for _, text := range r.Findings {
		fmt.Fprintf(w, "  - %s\n", text)
	}
	for _, text := range r.Refusals {
		fmt.Fprintf(w, "    refused %s\n", strings.ReplaceAll(text, "\n", " "))
	}
}

// PrintTable writes one line for each attack, and the verdict.
func (v *Verdict) PrintTable(w io.Writer) {
	fmt.Fprintf(w, "\n%-22s %-10s %-27s %-17s %8s %9s %10s %10s %7s\n", "attack", "verdict", "websockets, pages p99 (ms)", "git p99 (ms)", "refused", "disk MB", "memory MB", "server s", "others")
	for _, r := range v.Results {
		var alone, under [2]float64
		refused := 0
		for name, o := range r.Operations {
			kind := 0
			if isGit(name) {
				kind = 1
			}
			alone[kind], under[kind] = max(alone[kind], o.Alone.P99), max(under[kind], o.Attack.P99)
			refused += o.Attack.Refusals
		}
		verdict := "withstands"
		switch {
		case r.Crash != "":
			verdict = "CRASHES"
		case !r.OK():
			verdict = "FAILS"
		}
		pair := func(kind int) string { return fmt.Sprintf("%.0f -> %.0f", alone[kind], under[kind]) }
		fmt.Fprintf(w, "%-22s %-10s %-27s %-17s %8d %9s %10s %10.1f %5.0f %%\n", r.Name, verdict, pair(0), pair(1), refused,
			fmt.Sprintf("%+.1f", float64(r.After.Disk-r.Before.Disk)/1e6), fmt.Sprintf("%+.1f", float64(r.After.Memory-r.Before.Memory)/1e6),
			r.Processor.Server, 100*max(r.Processor.Others, r.ProcessorAlone.Others))
	}
	fmt.Fprintf(w, "\n%d of %d attacks fail a criterion", len(v.Fail), len(v.Results))
	if len(v.Fail) > 0 {
		fmt.Fprintf(w, ": %s", strings.Join(v.Fail, ", "))
	}
	fmt.Fprintln(w)
	if len(v.Busy) > 0 {
		fmt.Fprintf(w, "the times of %d say little, since other programs used more than %.0f %% of the machine: %s\n",
			len(v.Busy), 100*busyMachine, strings.Join(v.Busy, ", "))
	}
}
