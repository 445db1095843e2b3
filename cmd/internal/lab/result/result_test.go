package result

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the page about the results")

const second = Seconds(time.Second)

// sample is a run with a value in every field.
func sample() *Run {
	recovered := 42 * second
	r := &Run{
		Version:  Version,
		Scenario: Scenario{Name: "small", Digest: strings.Repeat("ab", 32), Duration: 3600 * second},
		Level:    Wire, Seed: 1<<64 - 1,
		Strategy: &Module{Name: "layered-v5", SHA256: strings.Repeat("cd", 32), Config: []Setting{{"batch_seconds", "5"}}},
		Throttle: &Module{Name: "polite"},
		Set:      []Setting{{"relays.rate", "50"}},
		End:      End{How: BrokenInvariant, At: 12*second + Seconds(345*time.Millisecond), Reason: "a value is open twice"},
		Findings: []Finding{{Invariant: "open-once", At: 12 * second, Relay: "r1", Text: "…", Prefix: &Prefix{Until: 12 * second, Events: []uint32{1, 2}, Faults: []uint32{0}}}},
		Faults:   []Fault{{Kind: "outage", Where: "r1", At: second, Until: 2 * second, Recovered: &recovered}},
		Series:   Series{Every: second, Completeness: []float64{0, 0.5, 1}, BytesUp: []int64{0, 10, 20}, BytesDown: []int64{0, 100, 200}},
		Missing:  []Missing{{ID: strings.Repeat("ef", 32), Kind: 1621, Talon: "talon-0", Relays: []string{"r1"}}}, Unlisted: 1,
		LoadEvery: 60 * second,
		Relays:    []Relay{{Name: "r1", Class: "strfry", BytesUp: 1, BytesDown: 2, Events: 3, Connections: 4, Connected: 5 * second, REQs: 6, NegOpens: 7, RateLimited: 8, Peak: 9, Load: []int64{9, 10}}},
		Git:       []Git{{Name: "g1", Class: "forge", Requests: 1, Refusals: 2, Fetched: 3, Bytes: 4}},
		Trace:     &Trace{Relay: "r1", Steps: []Step{{At: second, Direction: Up, What: "REQ", Text: "x", Bytes: 80, Count: 2}}, Omitted: 3},
	}
	for i, m := range Measures() {
		r.Measures.Set(m, 1.5*float64(i))
	}
	for _, d := range []time.Duration{0, 3 * time.Millisecond, time.Second, time.Second, 3 * time.Hour} {
		r.Staleness.Add(d)
	}
	r.Staleness.Missing = 2
	return r
}

func TestRunsAreReadAsWritten(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file)
	one, two := sample(), &Run{Version: Version, Throttle: &Module{Name: "eager"}, End: End{How: Finished}}
	for _, r := range []*Run{one, two} {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	text := file.String()
	var got []*Run
	for r, err := range Read(&file) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	two.Measures, two.Staleness = Values{}, Histogram{}
	if want := []*Run{one, two}; !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v, want\n%+v", got, want)
	}
	// Every field of the sample says something: else the test would not see one that is lost.
	var all map[string]any
	if err := json.Unmarshal([]byte(strings.SplitN(text, "\n", 2)[0]), &all); err != nil {
		t.Fatal(err)
	}
	if n := reflect.TypeFor[Run]().NumField(); len(all) != n {
		t.Errorf("the sample has %d keys of %d", len(all), n)
	}
	var again bytes.Buffer
	w = NewWriter(&again)
	for _, r := range got {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if again.String() != text {
		t.Errorf("written again it is\n%s, it was\n%s", again.String(), text)
	}
}

// The order in which the buckets were filled is not seen.
func TestEqualRunsAreEqualBytes(t *testing.T) {
	var first []byte
	for seed := range uint64(20) {
		var h Histogram
		delays := make([]time.Duration, 0, 1000)
		for i := range 1000 {
			delays = append(delays, time.Duration(i*i)*time.Millisecond)
		}
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(delays), func(i, j int) { delays[i], delays[j] = delays[j], delays[i] })
		for _, d := range delays {
			h.Add(d)
		}
		r := sample()
		r.Staleness = h
		var b bytes.Buffer
		if err := NewWriter(&b).Write(r); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		}
		if !bytes.Equal(first, b.Bytes()) {
			t.Fatalf("seed %d: other bytes", seed)
		}
	}
}

func TestWrongFilesAreRefused(t *testing.T) {
	var b bytes.Buffer
	if err := NewWriter(&b).Write(sample()); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for _, c := range []struct{ name, text, want string }{
		{"cut off", good + good[:100], "line 2: not a run of the lab: unexpected end"},
		{"other", good + "\n{}\n", "line 3: not a run of the lab: it has no version"},
		{"later", strings.Replace(good, Version, "talon-lab-run/9", 1), `line 1: its version is "talon-lab-run/9"`},
		{"text", "hello\n", "line 1: not a run of the lab: invalid character"},
		{"no modules", `{"version":"` + Version + `","end":{"how":"finished","at":1}}`, "names neither"},
		{"no end", `{"version":"` + Version + `","strategy":{"name":"a"}}`, `it ended ""`},
		{"series", `{"version":"` + Version + `","strategy":{"name":"a"},"end":{"how":"finished"},"series":{"completeness":[1]}}`, "a series without"},
		{"load", `{"version":"` + Version + `","strategy":{"name":"a"},"end":{"how":"finished"},"relays":[{"load":[1]}]}`, "the load of relays without"},
		{"time", strings.Replace(good, `"at":12.345`, `"at":1e300`, 1), "too many seconds"},
		{"histogram", strings.Replace(good, `"buckets":[[0,1]`, `"buckets":[[-5,1]`, 1), "below zero"},
	} {
		var err error
		for _, err = range Read(strings.NewReader(c.text)) {
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	long := io.MultiReader(strings.NewReader(good), io.LimitReader(zeros{}, maxLine+10))
	n := 0
	for r, err := range Read(long) {
		if n++; r != nil {
			continue
		}
		if want := "line 2: it is longer than 64 MiB"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if n != 2 {
		t.Errorf("%d runs and errors, want 2", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// This version of Talon reads results to which a later one has added keys.
func TestUnknownKeysArePassedOver(t *testing.T) {
	line := `{"version":"` + Version + `","strategy":{"name":"a","born":"yesterday"},"end":{"how":"finished"},"measures":{"beauty":9,"reqs":3},"mood":"good"}`
	for r, err := range Read(strings.NewReader(line)) {
		if err != nil {
			t.Fatal(err)
		}
		if x, ok := r.Measures.Get(REQs); !ok || x != 3 {
			t.Errorf("reqs %v %v", x, ok)
		}
		if _, ok := r.Measures.Get(Fuel); ok {
			t.Error("fuel was measured")
		}
	}
}

func TestSeconds(t *testing.T) {
	for _, c := range []struct {
		s    Seconds
		text string
	}{
		{0, "0"}, {second, "1"}, {1500 * Seconds(time.Millisecond), "1.5"}, {Seconds(time.Millisecond), "0.001"}, {Seconds(999 * time.Microsecond), "0"},
		{-second / 2, "-0.5"}, {100 * second, "100"}, {Seconds(365 * 24 * time.Hour), "31536000"},
	} {
		if got := c.s.String(); got != c.text {
			t.Errorf("%d: %s, want %s", c.s, got, c.text)
		}
		var back Seconds
		if err := json.Unmarshal([]byte(c.text), &back); err != nil || back.ms() != c.s.ms() {
			t.Errorf("%s is read as %v, %v", c.text, back, err)
		}
	}
}

// A bound is never below a time of its bucket, and at most a 16th above it; neighbours
// share no time.
func TestHistogramBounds(t *testing.T) {
	for ms := uint64(0); ms < 1<<40; ms += 1 + ms/97 {
		b := bucket(ms)
		le := bound(b)
		if le < ms || float64(le-ms) > float64(ms)/16 {
			t.Fatalf("%d ms is in bucket %d up to %d", ms, b, le)
		}
		if bucket(le) != b || bucket(le+1) != b+1 {
			t.Fatalf("bucket %d ends at %d: %d, %d", b, le, bucket(le), bucket(le+1))
		}
	}
}

func TestHistogramQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all, half, other Histogram
	var sorted []time.Duration
	for i := range 10_000 {
		d := time.Duration(math.Exp(r.NormFloat64()*3)) * time.Second
		sorted = append(sorted, d)
		all.Add(d)
		if i%2 == 0 {
			half.Add(d)
		} else {
			other.Add(d)
		}
	}
	slices.Sort(sorted)
	for _, q := range []float64{0, 0.01, 0.5, 0.99, 0.999, 1} {
		want := sorted[max(1, int(math.Ceil(q*10_000)))-1]
		got, ok := all.Quantile(q)
		if !ok || got < want || float64(got-want) > float64(want)/16 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	half.Merge(&other)
	if !reflect.DeepEqual(half, all) {
		t.Error("two halves are not the whole")
	}
	all.Missing = 10_000
	if _, ok := all.Quantile(0.51); ok || all.Total() != 20_000 {
		t.Error("what is missing has arrived")
	}
	all = Histogram{}
	if _, ok := all.Quantile(0.5); ok || !all.IsZero() {
		t.Error("nothing has a median")
	}
	all.Add(-time.Hour)
	if d, ok := all.Quantile(1); !ok || d != 0 {
		t.Errorf("a time before zero is %v", d)
	}
}

func TestMeasures(t *testing.T) {
	names := map[string]bool{}
	for _, m := range Measures() {
		i := m.Info()
		if i.Name == "" || i.Title == "" || i.Unit == "" || i.Doc == "" || names[i.Name] {
			t.Errorf("measure %d is not described: %+v", m, i)
		}
		names[i.Name] = true
		if back, err := ParseMeasure(i.Name); back != m || err != nil {
			t.Errorf("%s is read as %v, %v", i.Name, back, err)
		}
	}
	if _, err := ParseMeasure("beauty"); err == nil {
		t.Error("beauty is a measure")
	}
	var v Values
	v.Set(REQs, math.NaN())
	v.Set(Fuel, math.Inf(1))
	if _, ok := v.Get(TotalBytes); ok {
		t.Error("a sum without parts")
	}
	if text, err := v.MarshalJSON(); err != nil || string(text) != "{}" {
		t.Errorf("%s, %v", text, err)
	}
	v.Set(BytesUp, 3)
	v.Set(BytesDown, 4)
	if x, ok := v.Get(TotalBytes); !ok || x != 7 {
		t.Errorf("3 and 4 bytes are %v", x)
	}
}

func TestVariant(t *testing.T) {
	for want, r := range map[string]*Run{
		"layered-v5 batch_seconds=5 + polite": sample(),
		"a":                                   {Strategy: &Module{Name: "a"}},
		"t":                                   {Throttle: &Module{Name: "t"}},
		"a b":                                 {Strategy: &Module{Name: "a b"}},
	} {
		if got := r.Variant(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := sample().World(), "small relays.rate=50 wire"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCSV(t *testing.T) {
	files := map[string]*bytes.Buffer{}
	c, err := NewCSV(func(file string) (io.Writer, error) {
		files[file] = new(bytes.Buffer)
		return files[file], nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r := sample()
	r.Strategy.Name = `=HYPERLINK("x")`
	if err := c.Write(r); err != nil {
		t.Fatal(err)
	}
	for i, rows := range []int{1, 9, 5, 1} {
		table := Tables()[i]
		got, err := csv.NewReader(files[table.File]).ReadAll()
		if err != nil || len(got) != 1+rows || !slices.Equal(got[0], table.Columns) {
			t.Errorf("%s: %v, %v", table.File, got, err)
			continue
		}
		for _, row := range got[1:] {
			if row[0] != "small" || !strings.HasPrefix(row[3], `'=HYPERLINK`) || row[4] != "18446744073709551615" {
				t.Errorf("%s: %q", table.File, row)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := NewWriter(&b).Write(sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version":"` + Version + `","strategy":{"name":"a"},"end":{"how":"finished"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for r, err := range Read(bytes.NewReader(text)) {
			if (r == nil) == (err == nil) {
				t.Fatalf("run %v with error %v", r, err)
			}
			if r == nil {
				return
			}
			// Writing and reading again gives the same run.
			var one, two bytes.Buffer
			if err := NewWriter(&one).Write(r); err != nil {
				t.Fatal(err)
			}
			for again, err := range Read(bytes.NewReader(one.Bytes())) {
				if err != nil {
					t.Fatalf("%v\n%s", err, one.Bytes())
				}
				if err := NewWriter(&two).Write(again); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(one.Bytes(), two.Bytes()) {
				t.Fatalf("\n%s\n%s", one.Bytes(), two.Bytes())
			}
		}
	})
}

const page = "../../../../docs/reference-lab-results.md"

func TestReferencePage(t *testing.T) {
	want := Reference()
	if *rewrite {
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(page)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say (go test -rewrite): %v", page, err)
	}
	checkDocs(t, reflect.TypeFor[Run](), map[reflect.Type]bool{})
}

// checkDocs wants a key and a line of documentation for each field.
func checkDocs(t *testing.T, of reflect.Type, seen map[reflect.Type]bool) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Tag.Get("json") == "" || f.Tag.Get("doc") == "" {
			t.Errorf("%s.%s has no key or no documentation", of.Name(), f.Name)
		}
		in, _ := inner(f.Type)
		if in.Kind() == reflect.Struct && in != reflect.TypeFor[Values]() && !seen[in] {
			seen[in] = true
			checkDocs(t, in, seen)
		}
	}
}

func TestCounted(t *testing.T) {
	if got := Counted(1, "seed") + ", " + Counted(2, "seed"); got != "1 seed, 2 seeds" {
		t.Error(got)
	}
}
