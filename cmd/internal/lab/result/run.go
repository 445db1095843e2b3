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
	"cmp"
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
	Missing   []Missing `json:"missing,omitempty" doc:"wanted events that could be had and were not here at the end"`
	Unlisted  int64     `json:"unlisted,omitempty" doc:"how many more there are: at most 10,000 are listed"`
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

// MaxMissing bounds the missing events that a run lists.
const MaxMissing = 10_000

// Missing is a wanted event that was not here at the end.
type Missing struct {
	ID     string   `json:"id" doc:"its id, in hex"`
	Kind   int      `json:"kind" doc:"its kind"`
	Talon  string   `json:"talon" doc:"the Talon that wants it"`
	Relays []string `json:"relays,omitempty" doc:"the relays that have it"`
}

// Compare orders events by Talon and id.
func (m Missing) Compare(other Missing) int {
	return cmp.Or(strings.Compare(m.Talon, other.Talon), strings.Compare(m.ID, other.ID))
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
	Peak        int64   `json:"peak_requests" doc:"most REQs and NEG-OPENs in a second"`
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

// Settings names what was set in the scenario.
func (r *Run) Settings() string {
	if len(r.Set) == 0 {
		return "as it is"
	}
	return strings.Join(texts(r.Set), " ")
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
