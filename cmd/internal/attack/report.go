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
		if !isGit(name) {
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
	if n, _ := alone.refusals(); n > 0 {
		_, r.Refusals = alone.refusals()
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

// PrintTable writes one line for each attack.
func PrintTable(w io.Writer, results []*Result) {
	fmt.Fprintf(w, "\n%-22s %-10s %-26s %-26s %8s %10s %10s\n", "attack", "verdict", "websockets, pages p99 (ms)", "git p99 (ms)", "refused", "disk MB", "memory MB")
	for _, r := range results {
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
		fmt.Fprintf(w, "%-22s %-10s %-26s %-26s %8d %10s %10s\n", r.Name, verdict, pair(0), pair(1), refused,
			fmt.Sprintf("%+.1f", float64(r.After.Disk-r.Before.Disk)/1e6), fmt.Sprintf("%+.1f", float64(r.After.Memory-r.Before.Memory)/1e6))
	}
}
