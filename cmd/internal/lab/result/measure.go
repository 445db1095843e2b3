package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Measure is one of the scalar measures of a run.
type Measure uint8

const (
	Completeness Measure = iota
	Recall
	StalenessP50
	StalenessP99
	StalenessMax
	TotalBytes
	BytesUp
	BytesDown
	BytesOverIdeal
	Duplicates
	Connections
	ConnectionHours
	Attempts
	REQs
	NegOpens
	PeakRequests
	RateLimited
	LoadGini
	RecoveryP50
	RecoveryMax
	GitRequests
	GitRefusals
	DataP50
	DataP99
	DataGini
	GitRest
	Steps
	Fuel
	Memory
	numMeasures
)

// Unit is the unit of a measure.
type Unit string

const (
	Share Unit = "share" // 0 to 1
	Time  Unit = "s"
	Bytes Unit = "bytes"
	Count Unit = "count"
	Ratio Unit = "ratio"
	Index Unit = "index" // 0 to 1
	Hours Unit = "h"
)

// Info describes a measure.
type Info struct {
	Name   string // in the JSON and CSV forms
	Title  string // in tables
	Unit   Unit
	Higher bool // a higher value is the better one
	Doc    string
}

var infos = [numMeasures]Info{
	Completeness:    {"completeness", "completeness", Share, true, "share of the wanted events, published on relays that could be reached, that were here at the end"},
	Recall:          {"recall", "recall", Share, true, "share of the wanted events that were here at the end, those among them that no relay had any more"},
	StalenessP50:    {"staleness_p50", "staleness p50", Time, false, "median time from publishing to arrival here; an event that never arrived counts with its age at the end, here and in the next two"},
	StalenessP99:    {"staleness_p99", "staleness p99", Time, false, "the 99th percentile of it"},
	StalenessMax:    {"staleness_max", "staleness max", Time, false, "the longest"},
	TotalBytes:      {"bytes", "bytes", Bytes, false, "bytes sent to relays and received from them, frames included"},
	BytesUp:         {"bytes_up", "bytes up", Bytes, false, "those sent"},
	BytesDown:       {"bytes_down", "bytes down", Bytes, false, "those received"},
	BytesOverIdeal:  {"bytes_over_ideal", "bytes over ideal", Ratio, false, "bytes in both directions over those of each wanted event sent once"},
	Duplicates:      {"duplicates", "duplicates", Count, false, "events received that were here already"},
	Connections:     {"connections", "connections", Count, false, "most connections open at once"},
	ConnectionHours: {"connection_hours", "time connected", Hours, false, "how long connections were open, summed"},
	Attempts:        {"attempts", "attempts", Count, false, "connections attempted"},
	REQs:            {"reqs", "REQs", Count, false, "REQ messages sent"},
	NegOpens:        {"neg_opens", "NEG-OPENs", Count, false, "NEG-OPEN messages sent"},
	PeakRequests:    {"peak_requests", "peak requests", Count, false, "most REQs and NEG-OPENs in one second at one foreign relay"},
	RateLimited:     {"rate_limited", "rate limits hit", Count, false, "requests that a relay refused for their number"},
	LoadGini:        {"load_gini", "load Gini", Index, false, "Gini coefficient of the bytes of each relay: 0 if all carry the same, near 1 if one carries all"},
	RecoveryP50:     {"recovery_p50", "recovery p50", Time, false, "median time from the end of a fault until everything that it held back was here"},
	RecoveryMax:     {"recovery_max", "recovery max", Time, false, "the longest"},
	GitRequests:     {"git_requests", "git requests", Count, false, "requests at git servers, each a fetch"},
	GitRefusals:     {"git_refusals", "git refusals", Count, false, "requests that a git server refused or left without an answer"},
	DataP50:         {"data_p50", "time to data p50", Time, false, "median time until the git data of a held event is here, from when both are there: the event here, the data at a git server; data that never came counts with the time until the end, here and in the next two"},
	DataP99:         {"data_p99", "time to data p99", Time, false, "the 99th percentile of it"},
	DataGini:        {"data_gini", "data Gini", Index, false, "Gini coefficient of the mean time to data of each repository: 0 if all wait as long"},
	GitRest:         {"git_rest", "git servers rested", Share, false, "share of the time in which a git server that is honest and could be reached was left alone because of how it had answered"},
	Steps:           {"steps", "steps", Count, false, "calls of the module"},
	Fuel:            {"fuel", "fuel", Count, false, "fuel that the module used"},
	Memory:          {"memory", "memory", Bytes, false, "largest memory of the module"},
}

// Measures returns all measures, in the order of tables.
func Measures() []Measure {
	all := make([]Measure, numMeasures)
	for i := range all {
		all[i] = Measure(i)
	}
	return all
}

func (m Measure) Info() Info { return infos[m] }

func (m Measure) String() string { return infos[m].Name }

// ParseMeasure returns the measure of a name.
func ParseMeasure(name string) (Measure, error) {
	i := slices.IndexFunc(infos[:], func(i Info) bool { return i.Name == name })
	if i < 0 {
		return 0, fmt.Errorf("%.40q is not a measure", name)
	}
	return Measure(i), nil
}

// Values are the measures of a run, as far as they were measured.
type Values struct {
	value [numMeasures]float64
	set   [numMeasures]bool
}

// Set stores a value. NaN and infinities are ignored. TotalBytes follows from BytesUp and
// BytesDown.
func (v *Values) Set(m Measure, x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	v.value[m], v.set[m] = x, true
	if v.set[BytesUp] && v.set[BytesDown] {
		v.value[TotalBytes], v.set[TotalBytes] = v.value[BytesUp]+v.value[BytesDown], true
	}
}

// Get returns a value; ok is false if it was not measured.
func (v *Values) Get(m Measure) (x float64, ok bool) { return v.value[m], v.set[m] }

func (v Values) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for m := range numMeasures {
		if !v.set[m] {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		x, err := json.Marshal(v.value[m])
		if err != nil {
			return nil, err
		}
		b = append(append(append(append(b, '"'), infos[m].Name...), '"', ':'), x...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON ignores unknown measures: a later version of Talon may have more of them.
func (v *Values) UnmarshalJSON(text []byte) error {
	var all map[string]*float64
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&all); err != nil {
		return err
	}
	*v = Values{}
	for m := range numMeasures {
		if x := all[infos[m].Name]; x != nil {
			v.Set(m, *x)
		}
	}
	return nil
}
