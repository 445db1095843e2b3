// Package result defines the results of a run of the lab, and their formats as JSON lines
// and CSV. docs/reference-lab-results.md is made from the types.
//
// Invariants:
//
//  1. A line stands alone: it names the scenario, the modules, the seed and the version
//     of its form, and is read without any other line.
//  2. Equal runs are equal bytes: keys have a fixed order, numbers one form, and there
//     is no wall-clock time, path or host name in a run.
//  3. A reader takes lines of its own version with fields that it does not know, and
//     refuses other versions by name. A line that is cut off, or too long, is an error
//     with the line's number, after all lines before it.
//  4. Writing and reading hold one run at a time.
package result

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// Version is the format version of the lines that this package writes.
const Version = "talon-lab-run/1"

// Run is one run: a scenario, a seed, and the modules under test.
type Run struct {
	Version   string    `json:"version" doc:"the form of the line: talon-lab-run/1"`
	Scenario  Scenario  `json:"scenario" doc:"the world"`
	Level     Level     `json:"level" doc:"the fidelity" one:"model|wire"`
	Seed      uint64    `json:"seed" doc:"the source of everything random; runs of one scenario with one seed had the same weather"`
	Strategy  *Module   `json:"strategy,omitempty" doc:"the strategy under test"`
	Throttle  *Module   `json:"throttle,omitempty" doc:"the throttle under test"`
	Set       []Setting `json:"set,omitempty" doc:"what --set changed in the scenario, in the order of the command line"`
	End       End       `json:"end" doc:"how the run ended"`
	Findings  []Finding `json:"findings,omitempty" doc:"broken invariants, and other things that a reader must know"`
	Faults    []Fault   `json:"faults,omitempty" doc:"the faults of the world, in the order in which they begin"`
	Measures  Values    `json:"measures" doc:"the scalar measures, by name, as above; one that was not measured is absent"`
	Series    Series    `json:"series,omitzero" doc:"measures over time"`
	Staleness Histogram `json:"staleness,omitzero" doc:"from the publishing of each wanted event to its arrival here"`
	LoadEvery Seconds   `json:"load_every,omitempty" doc:"the width of the time buckets of the relays' load"`
	Relays    []Relay   `json:"relays,omitempty" doc:"a row for each relay; absent if the run did not keep them"`
	Git       []Git     `json:"git,omitempty" doc:"a row for each git server; absent if the run did not keep rows, or has no git server"`
	Trace     *Trace    `json:"trace,omitempty" doc:"the messages on the line to one relay; absent if the run did not keep them"`
}

// Scenario names a world.
type Scenario struct {
	Name     string  `json:"name" doc:"the name in the file, or that of the file"`
	Digest   string  `json:"digest" doc:"sha256 of the scenario after defaults and --set, in hex: runs with the same digest and seed had the same world"`
	Duration Seconds `json:"duration" doc:"how long the world lasts"`
}

// Level is the fidelity of a run.
type Level string

const (
	Model Level = "model" // relays answer from a cost model
	Wire  Level = "wire"  // the real session over simulated lines
)

// Module is a strategy or a throttle, with what it was configured with.
type Module struct {
	Name   string    `json:"name" doc:"the name in the table, from the file name"`
	SHA256 string    `json:"sha256,omitempty" doc:"of the .wasm file, in hex; absent for a native Go strategy"`
	Config []Setting `json:"config,omitempty" doc:"options that differ from the manifest's defaults, by key"`
}

// Setting is a key and its value, as text.
type Setting struct {
	Key   string `json:"key" doc:"the key"`
	Value string `json:"value" doc:"the value, as on the command line"`
}

// How is the way in which a run ended.
type How string

const (
	Finished        How = "finished"
	CutShort        How = "cut-short"
	BrokenInvariant How = "invariant"
	ModuleFailed    How = "module-failed"
)

// End is the end of a run. A run that did not finish has the measures of the time until
// then, and is left out of comparisons.
type End struct {
	How    How     `json:"how" doc:"how it ended: finished; cut-short by the person; invariant broken; module-failed" one:"finished|cut-short|invariant|module-failed"`
	At     Seconds `json:"at" doc:"when, in virtual time"`
	Reason string  `json:"reason,omitempty" doc:"why it did not finish"`
}

// Finding is a fault that a run found, such as a broken invariant.
type Finding struct {
	Invariant string  `json:"invariant" doc:"the name of the invariant or of the rule"`
	At        Seconds `json:"at" doc:"when it was seen"`
	Relay     string  `json:"relay,omitempty" doc:"the relay that it was seen at"`
	Text      string  `json:"text" doc:"what was seen, in a sentence"`
	Prefix    *Prefix `json:"prefix,omitempty" doc:"the shortest part of the run found that still shows it"`
}

// Prefix is the part of a run's events and faults up to a time.
type Prefix struct {
	Until  Seconds  `json:"until" doc:"the run ends here"`
	Events []uint32 `json:"events" doc:"the events that are published, by their number in the run"`
	Faults []uint32 `json:"faults" doc:"the faults that happen, by their number in the run"`
}

// Fault is a fault of the world, and its outcome.
type Fault struct {
	Kind      string   `json:"kind" doc:"the kind of fault, such as outage, partition or restart"`
	Where     string   `json:"where,omitempty" doc:"the relay, line or server that it struck"`
	At        Seconds  `json:"at" doc:"its begin"`
	Until     Seconds  `json:"until" doc:"its end"`
	Recovered *Seconds `json:"recovered,omitempty" doc:"from its end until everything that it held back was here; absent if that was not seen"`
}

// Series are the measures over time: value i is that of the time i × every.
type Series struct {
	Every        Seconds   `json:"every" doc:"the time between two values; the first is that of 0"`
	Completeness []float64 `json:"completeness,omitempty" doc:"share of the wanted events published until then that were here"`
	BytesUp      []int64   `json:"bytes_up,omitempty" doc:"bytes sent to relays until then"`
	BytesDown    []int64   `json:"bytes_down,omitempty" doc:"bytes received from relays until then"`
}

// Relay is the traffic between a relay and the Talons under test.
type Relay struct {
	Name        string  `json:"name" doc:"its name in the world"`
	Class       string  `json:"class,omitempty" doc:"its class in the scenario"`
	BytesUp     int64   `json:"bytes_up" doc:"bytes that it received"`
	BytesDown   int64   `json:"bytes_down" doc:"bytes that it sent"`
	Events      int64   `json:"events" doc:"events that it sent"`
	Connections int64   `json:"connections" doc:"connections that it accepted"`
	Connected   Seconds `json:"connected" doc:"how long they were open, summed"`
	REQs        int64   `json:"reqs" doc:"REQ messages"`
	NegOpens    int64   `json:"neg_opens" doc:"NEG-OPEN messages"`
	RateLimited int64   `json:"rate_limited" doc:"requests that it refused for their number"`
	Load        []int64 `json:"load,omitempty" doc:"bytes in both directions in each time bucket of load_every"`
}

// Git is the traffic between a git server and the Talons under test.
type Git struct {
	Name     string `json:"name" doc:"its name in the world"`
	Class    string `json:"class,omitempty" doc:"its class in the scenario"`
	Requests int64  `json:"requests" doc:"requests, each a fetch"`
	Refusals int64  `json:"refusals" doc:"those that it refused or left without an answer"`
	Fetched  int64  `json:"fetched" doc:"events whose git data it gave"`
	Bytes    int64  `json:"bytes" doc:"bytes that it sent"`
}

// Trace has the steps of the connection to one relay, in the order of time.
type Trace struct {
	Relay   string `json:"relay" doc:"the relay"`
	Steps   []Step `json:"steps" doc:"what happened"`
	Omitted int64  `json:"omitted,omitempty" doc:"steps left out at the end, because there were too many"`
}

// Direction is the direction of a step.
type Direction string

const (
	Up   Direction = "up"   // to the relay
	Down Direction = "down" // from the relay
	Here Direction = "here" // in this Talon: a decision of the strategy
	Line Direction = "line" // at the line or the relay: connected, lost, a fault
)

// Step is a message, a decision or a change of the line. Equal ones that follow each
// other are one step with a count.
type Step struct {
	At        Seconds   `json:"at" doc:"when; the first of several"`
	Direction Direction `json:"dir" doc:"up to the relay, down from it, here in Talon, or of the line" one:"up|down|here|line"`
	What      string    `json:"what" doc:"the type of the message, such as REQ, or of the step, such as connected"`
	Text      string    `json:"text,omitempty" doc:"what it said, shortened"`
	Bytes     int64     `json:"bytes,omitempty" doc:"bytes of the frames, summed"`
	Count     int64     `json:"count,omitempty" doc:"how many; absent for one"`
}

// Variant names what is under test: strategy, throttle and what was configured.
func (r *Run) Variant() string {
	var parts []string
	for _, m := range []*Module{r.Strategy, r.Throttle} {
		if m == nil {
			continue
		}
		if len(parts) > 0 {
			parts = append(parts, "+")
		}
		parts = append(parts, m.Name)
		parts = append(parts, texts(m.Config)...)
	}
	return strings.Join(parts, " ")
}

// World names what it was tested in: the scenario, what was set in it, the level. Runs of
// one world and seed had the same events and faults, and are compared.
func (r *Run) World() string {
	return strings.Join(append(append([]string{r.Scenario.Name}, texts(r.Set)...), string(r.Level)), " ")
}

// Counted writes a number of things: "1 seed", "2 seeds".
func Counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func texts(settings []Setting) []string {
	list := make([]string, 0, len(settings))
	for _, s := range settings {
		list = append(list, s.Key+"="+s.Value)
	}
	return list
}

// CSV writes runs as four tables, which the columns scenario, level, set, variant
// and seed join.
type CSV struct {
	runs, series, staleness, relays *csv.Writer
	err                             error
}

// Table is one of the tables: the name of its file, and its columns.
type Table struct {
	File    string
	Doc     string
	Columns []string
}

var key = []string{"scenario", "level", "set", "variant", "seed"}

// Tables returns the tables and their columns.
func Tables() []Table {
	runs := append(append([]string{}, key...), "digest", "strategy", "strategy_sha256", "throttle", "throttle_sha256", "end", "end_at", "findings")
	for _, m := range Measures() {
		runs = append(runs, m.String())
	}
	with := func(columns ...string) []string { return append(append([]string{}, key...), columns...) }
	return []Table{
		{"runs.csv", "a row for each run, with a column for each measure; an empty cell was not measured", runs},
		{"series.csv", "a row for each value over time", with("series", "at", "value")},
		{"staleness.csv", "a row for each bucket: n times were at most le seconds, and above the le before; le is inf for events that never arrived", with("le", "n")},
		{"relays.csv", "a row for each relay", with("relay", "class", "bytes_up", "bytes_down", "events", "connections", "connected", "reqs", "neg_opens", "rate_limited")},
	}
}

// NewCSV writes the heads of the tables. Open returns where the table of a name goes.
func NewCSV(open func(file string) (io.Writer, error)) (*CSV, error) {
	c := new(CSV)
	for i, to := range []**csv.Writer{&c.runs, &c.series, &c.staleness, &c.relays} {
		t := Tables()[i]
		w, err := open(t.File)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", t.File, err)
		}
		*to = csv.NewWriter(w)
		c.row(*to, t.Columns)
	}
	return c, c.flush()
}

// Write adds the rows of a run.
func (c *CSV) Write(r *Run) error {
	key := []string{r.Scenario.Name, string(r.Level), strings.Join(texts(r.Set), " "), r.Variant(), strconv.FormatUint(r.Seed, 10)}
	with := func(w *csv.Writer, cells ...string) { c.row(w, append(key[:len(key):len(key)], cells...)) }
	row := []string{r.Scenario.Digest}
	for _, m := range []*Module{r.Strategy, r.Throttle} {
		if m == nil {
			m = new(Module)
		}
		row = append(row, m.Name, m.SHA256)
	}
	row = append(row, string(r.End.How), r.End.At.String(), strconv.Itoa(len(r.Findings)))
	for _, m := range Measures() {
		cell := ""
		if x, ok := r.Measures.Get(m); ok {
			cell = float(x)
		}
		row = append(row, cell)
	}
	with(c.runs, row...)
	at := func(i int) string { return (r.Series.Every * Seconds(i)).String() }
	for i, x := range r.Series.Completeness {
		with(c.series, "completeness", at(i), float(x))
	}
	for i, x := range r.Series.BytesUp {
		with(c.series, "bytes_up", at(i), whole(x))
	}
	for i, x := range r.Series.BytesDown {
		with(c.series, "bytes_down", at(i), whole(x))
	}
	for _, b := range r.Staleness.Bars() {
		with(c.staleness, b.LE.String(), strconv.FormatUint(b.Count, 10))
	}
	if n := r.Staleness.Missing; n > 0 {
		with(c.staleness, "inf", strconv.FormatUint(n, 10))
	}
	for i := range r.Relays {
		l := &r.Relays[i]
		with(c.relays, l.Name, l.Class, whole(l.BytesUp), whole(l.BytesDown), whole(l.Events), whole(l.Connections), l.Connected.String(),
			whole(l.REQs), whole(l.NegOpens), whole(l.RateLimited))
	}
	return c.flush()
}

func float(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func whole(n int64) string { return strconv.FormatInt(n, 10) }

// row writes cells. A text that a spreadsheet would take for a formula is quoted with an
// apostrophe: names of modules and relays are anybody's.
func (c *CSV) row(w *csv.Writer, cells []string) {
	for i, cell := range cells {
		if _, err := strconv.ParseFloat(cell, 64); err != nil && cell != "" && (cell[0] == '=' || cell[0] == '+' || cell[0] == '-' || cell[0] == '@' || cell[0] == '\t' || cell[0] == '\r') {
			cells[i] = "'" + cell
		}
	}
	c.err = errors.Join(c.err, w.Write(cells))
}

func (c *CSV) flush() error {
	for _, w := range []*csv.Writer{c.runs, c.series, c.staleness, c.relays} {
		if w != nil {
			w.Flush()
			c.err = errors.Join(c.err, w.Error())
		}
	}
	return c.err
}

// maxLine is the longest line that is read: the rows of 10,000 relays with their load
// are below it.
const maxLine = 64 << 20

// Writer writes runs, one a line.
type Writer struct{ w *bufio.Writer }

func NewWriter(w io.Writer) *Writer { return &Writer{bufio.NewWriter(w)} }

// Write writes a run, whole or with an error. It flushes each line, so that finished runs
// are kept when the program is killed.
func (w *Writer) Write(r *Run) error {
	line, err := json.Marshal(r.versioned())
	if err != nil {
		return fmt.Errorf("encode a run: %w", err)
	}
	w.w.Write(append(line, '\n')) // Flush returns its error
	return w.w.Flush()
}

func (r *Run) versioned() *Run {
	c := *r
	c.Version = Version
	return &c
}

// Read returns the runs of a file. An error is the last thing that it yields.
func Read(r io.Reader) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 64<<10), maxLine)
		n := 0
		for lines.Scan() {
			n++
			if len(lines.Bytes()) == 0 {
				continue
			}
			run, err := parse(lines.Bytes())
			if err != nil {
				yield(nil, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(run, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = fmt.Errorf("it is longer than %d MiB", maxLine>>20)
			}
			yield(nil, fmt.Errorf("line %d: %w", n+1, err))
		}
	}
}

func parse(line []byte) (*Run, error) {
	var v struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, fmt.Errorf("not a run of the lab: %w", err)
	}
	if v.Version != Version {
		if v.Version == "" {
			return nil, errors.New("not a run of the lab: it has no version")
		}
		return nil, fmt.Errorf("its version is %.40q, and this talon reads %s", v.Version, Version)
	}
	run := new(Run)
	if err := json.Unmarshal(line, run); err != nil {
		return nil, fmt.Errorf("not a run of the lab: %w", err)
	}
	return run, run.check()
}

// check refuses what no run of the lab has, so that what uses runs need not.
func (r *Run) check() error {
	if r.Strategy == nil && r.Throttle == nil {
		return errors.New("not a run of the lab: it names neither a strategy nor a throttle")
	}
	switch r.End.How {
	case Finished, CutShort, BrokenInvariant, ModuleFailed:
	default:
		return fmt.Errorf("not a run of the lab: it ended %.40q", string(r.End.How))
	}
	s := &r.Series
	if n := max(len(s.Completeness), len(s.BytesUp), len(s.BytesDown)); n > 0 && s.Every <= 0 {
		return errors.New("not a run of the lab: a series without a time between its values")
	}
	for i := range r.Relays {
		if len(r.Relays[i].Load) > 0 && r.LoadEvery <= 0 {
			return errors.New("not a run of the lab: the load of relays without a width of its buckets")
		}
	}
	return nil
}
