package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Measure is one of the scalar measures of a run.
type Measure uint8

const (
	Completeness Measure = iota
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

// Seconds is a virtual time since the begin of a run, or a span of it. Its form is a
// number of seconds with up to three decimals; what is finer is cut off.
type Seconds time.Duration

// Since returns the virtual time t of a run that began at begin.
func Since(begin, t time.Time) Seconds { return Seconds(t.Sub(begin)) }

func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// Float returns the number of seconds, to the millisecond.
func (s Seconds) Float() float64 { return float64(s.ms()) / 1000 }

func (s Seconds) ms() int64 { return time.Duration(s).Milliseconds() }

func (s Seconds) String() string {
	n := s.ms()
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%03d", sign, n/1000, n%1000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

func (s *Seconds) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("%.40q is not a number of seconds", text)
	}
	ms := math.Round(f * 1000)
	if math.Abs(ms) > math.MaxInt64/1e7 {
		return fmt.Errorf("%.40q is too many seconds", text)
	}
	*s = Seconds(time.Duration(ms) * time.Millisecond)
	return nil
}

// Histogram counts times in buckets whose width is a 16th of their power of two, in
// milliseconds: a bound is at most 6.25 % above the times below it, and histograms of
// different runs have the same bounds.
type Histogram struct {
	Missing uint64         // what never arrived
	counts  map[int]uint64 // by bucket
}

const subBits = 4 // 16 buckets to a power of two

// bucket returns the number of the bucket of a time.
func bucket(ms uint64) int {
	if ms < 1<<subBits {
		return int(ms)
	}
	shift := bits.Len64(ms) - 1 - subBits
	return (shift+1)<<subBits + int(ms>>shift) - 1<<subBits
}

// bound returns the longest time of a bucket, in milliseconds.
func bound(bucket int) uint64 {
	if bucket < 1<<subBits {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return uint64(bucket&(1<<subBits-1)+1<<subBits+1)<<shift - 1
}

// Add counts a time. One before zero, as a skewed clock makes it, counts as zero.
func (h *Histogram) Add(d time.Duration) { h.add(bucket(uint64(max(0, d.Milliseconds()))), 1) }

func (h *Histogram) add(bucket int, n uint64) {
	if h.counts == nil {
		h.counts = map[int]uint64{}
	}
	h.counts[bucket] += n
}

// Merge adds what another histogram has counted.
func (h *Histogram) Merge(o *Histogram) {
	h.Missing += o.Missing
	for b, n := range o.counts {
		h.add(b, n)
	}
}

// IsZero reports whether nothing was counted.
func (h Histogram) IsZero() bool { return h.Total() == 0 }

// Total returns the number of values, including what never arrived.
func (h *Histogram) Total() uint64 {
	n := h.Missing
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Bar is a bucket: how many times were at most LE, and above that of the bar before.
type Bar struct {
	LE    Seconds
	Count uint64
}

// Bars returns the buckets that are not empty, the shortest times first.
func (h *Histogram) Bars() []Bar {
	bars := make([]Bar, 0, len(h.counts))
	for _, b := range slices.Sorted(maps.Keys(h.counts)) {
		bars = append(bars, Bar{Seconds(time.Duration(bound(b)) * time.Millisecond), h.counts[b]})
	}
	return bars
}

// Quantile returns the bound of the bucket of the q-th part of all that was counted. It
// returns false if that never arrived, or nothing was counted.
func (h *Histogram) Quantile(q float64) (time.Duration, bool) {
	rank := uint64(max(1, math.Ceil(q*float64(h.Total()))))
	var n uint64
	for _, b := range h.Bars() {
		if n += b.Count; n >= rank {
			return b.LE.Duration(), true
		}
	}
	return 0, false
}

type histogramJSON struct {
	Missing uint64               `json:"missing,omitempty" doc:"how many never arrived"`
	Buckets [][2]json.RawMessage `json:"buckets" doc:"pairs [le, n]: n times were at most le seconds, and above the le of the pair before"`
}

func (h Histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Missing: h.Missing, Buckets: [][2]json.RawMessage{}}
	for _, b := range h.Bars() {
		n, err := json.Marshal(b.Count)
		if err != nil {
			return nil, err
		}
		j.Buckets = append(j.Buckets, [2]json.RawMessage{json.RawMessage(b.LE.String()), n})
	}
	return json.Marshal(j)
}

func (h *Histogram) UnmarshalJSON(text []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*h = Histogram{Missing: j.Missing}
	for _, pair := range j.Buckets {
		var le Seconds
		var n uint64
		if err := json.Unmarshal(pair[0], &le); err != nil {
			return fmt.Errorf("read a histogram: %w", err)
		}
		if err := json.Unmarshal(pair[1], &n); err != nil {
			return fmt.Errorf("read a histogram: %w", err)
		}
		if le < 0 {
			return fmt.Errorf("read a histogram: the bound %s is below zero", le)
		}
		h.add(bucket(uint64(le.ms())), n)
	}
	return nil
}
