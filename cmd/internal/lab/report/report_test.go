package report

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"talon/cmd/internal/lab/result"
	"talon/cmd/internal/lab/stats"
)

var runsFile = flag.String("runs", "", "write the synthetic runs to a file, to look at with talon lab report")

const second = result.Seconds(time.Second)

// synthetic returns runs of four variants in a day of a made-up world. The middle two
// need fewer bytes, the last one is late, and breaks an invariant at times.
func synthetic(seeds int) []*result.Run {
	var runs []*result.Run
	for seed := range uint64(seeds) {
		for i, name := range []string{"layered-v2", "layered-v4", "layered-v5", "sampling"} {
			draw := rand.New(rand.NewPCG(seed, uint64(i)))
			weather := rand.New(rand.NewPCG(seed, 99))
			cost := []float64{1, 0.97, 0.55, 0.3}[i] * math.Exp(0.1*draw.NormFloat64()) * math.Exp(0.3*weather.NormFloat64())
			late := []float64{1, 1.02, 0.9, 6}[i] * math.Exp(0.2*draw.NormFloat64())
			r := &result.Run{Scenario: result.Scenario{Name: "small", Digest: strings.Repeat("ab", 32), Duration: 86400 * second}, Level: result.Wire, Seed: seed,
				Strategy: &result.Module{Name: name, SHA256: strings.Repeat("cd", 32)}, Throttle: &result.Module{Name: "polite"},
				End: result.End{How: result.Finished, At: 86400 * second}}
			r.Series.Every = 300 * second
			end := 289
			if i == 3 && seed%11 == 5 {
				end = 100 + draw.IntN(100)
				r.End = result.End{How: result.BrokenInvariant, At: result.Seconds(end) * 300 * second, Reason: "an event that is wanted has not arrived within 2 h"}
				r.Findings = []result.Finding{{Invariant: "wanted-arrives", At: r.End.At, Relay: "relay-03", Text: "event 4f21… of 30617:…:talon is on relay-03 for 2 h and not here",
					Prefix: &result.Prefix{Until: r.End.At, Events: []uint32{17}, Faults: []uint32{2, 3}}}}
			}
			total := 0.0
			for k := range end {
				gap := 0.04*late*math.Exp(-float64(k)/8) + 0.0004*late*(1+math.Sin(float64(k)/20))*(1+draw.Float64())
				if k > 120 && k < 140 {
					gap += 0.01 * late * float64(140-k) / 20
				}
				if k == 0 {
					gap = 1
				}
				total += cost * (4e5*math.Exp(-float64(k)/6) + 3e4*(1.2+math.Sin(float64(k)/46)))
				r.Series.Completeness = append(r.Series.Completeness, max(0, 1-gap))
				r.Series.BytesUp = append(r.Series.BytesUp, int64(total*0.1))
				r.Series.BytesDown = append(r.Series.BytesDown, int64(total*0.9))
			}
			var worst, p99 time.Duration
			for range 800 {
				d := time.Duration(late * math.Exp(draw.NormFloat64()*1.6) * float64(400*time.Millisecond))
				worst = max(worst, d)
				r.Staleness.Add(d)
			}
			r.Staleness.Missing = uint64(i)
			p99, _ = r.Staleness.Quantile(0.95)
			p50, _ := r.Staleness.Quantile(0.5)
			for m, x := range map[result.Measure]float64{result.Completeness: r.Series.Completeness[end-1], result.StalenessP50: p50.Seconds(), result.StalenessP99: p99.Seconds(),
				result.StalenessMax: worst.Seconds(), result.BytesUp: math.Round(total * 0.1), result.BytesDown: math.Round(total * 0.9), result.BytesOverIdeal: 1.7 * cost, result.Duplicates: float64(draw.IntN(900)),
				result.Connections: 12, result.ConnectionHours: 280 + 5*draw.NormFloat64(), result.REQs: float64(1000 + draw.IntN(200)), result.LoadGini: 0.3 + 0.05*draw.NormFloat64(),
				result.Steps: float64(12000 + draw.IntN(1000)), result.Fuel: 3.1e9 * cost, result.Memory: 2 << 20} {
				r.Measures.Set(m, x)
			}
			r.LoadEvery = 900 * second
			for n := range 14 {
				l := result.Relay{Name: fmt.Sprintf("relay-%02d", n), Class: []string{"strfry", "khatru", "limited"}[n%3]}
				for k := range (end + 2) / 3 {
					bytes := int64(cost * 2e5 / float64(n+1) * math.Exp(draw.NormFloat64()) * (1.1 + math.Sin(float64(k)/15)))
					if k == 0 {
						bytes *= 20
					}
					if n == 3 && k > 40 && k < 47 {
						bytes = 0
					}
					l.Load = append(l.Load, bytes)
					l.BytesDown += bytes
				}
				r.Relays = append(r.Relays, l)
			}
			recovered := 75 * second
			r.Faults = []result.Fault{{Kind: "outage", Where: "relay-03", At: 36000 * second, Until: 42000 * second, Recovered: &recovered}}
			if seed%11 == 5 {
				r.Trace = trace()
			}
			runs = append(runs, r)
		}
	}
	return runs
}

func trace() *result.Trace {
	return &result.Trace{Relay: "relay-03", Omitted: 812, Steps: []result.Step{
		{At: 0, Direction: result.Here, What: "connect", Text: "3 repositories list it"},
		{At: second / 8, Direction: result.Line, What: "connected"},
		{At: second / 7, Direction: result.Up, What: "REQ", Text: `{"kinds":[30617,30618],"limit":0}`, Bytes: 96},
		{At: second / 6, Direction: result.Up, What: "NEG-OPEN", Text: `{"#a":["30617:…:talon"]}`, Bytes: 420, Count: 3},
		{At: second / 4, Direction: result.Down, What: "EOSE", Bytes: 14},
		{At: second / 3, Direction: result.Down, What: "NEG-MSG", Bytes: 2210, Count: 3},
		{At: second / 2, Direction: result.Up, What: "REQ", Text: `{"ids":["4f21…", …]}`, Bytes: 3400},
		{At: second, Direction: result.Down, What: "EVENT", Bytes: 48211, Count: 57},
		{At: second + second/50, Direction: result.Down, What: "EOSE", Bytes: 14},
		{At: 36000 * second, Direction: result.Line, What: "lost", Text: "outage of relay-03"},
		{At: 42005 * second, Direction: result.Line, What: "connected"},
	}}
}

func gather(t *testing.T, runs []*result.Run) *Report {
	t.Helper()
	var file bytes.Buffer
	w := result.NewWriter(&file)
	for _, run := range runs {
		if err := w.Write(run); err != nil {
			t.Fatal(err)
		}
	}
	r := new(Report)
	if err := r.Read(&file); err != nil {
		t.Fatal(err)
	}
	return r
}

func page(t *testing.T, runs []*result.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := gather(t, runs).Page(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	runs := synthetic(30)
	if *runsFile != "" {
		f, err := os.Create(*runsFile)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := result.NewWriter(f)
		for _, run := range runs {
			if err := w.Write(run); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := page(t, runs)
	for _, want := range []string{
		"<title>small wire · Talon lab</title>", "30 seeds of 24 h, 4 variants, wire level",
		"layered-v5 &#43; polite compared with layered-v2 &#43; polite: LOST", "sampling &#43; polite did not finish 3 of 30 runs.",
		"<strong>wanted-arrives</strong>", "1 event and 2 faults until", `<a href="#world-0-3-5">sequence</a>`, `id="world-0-3-5"`, "812 later steps left out",
		`"variants":["layered-v2 + polite"`, "Permission is hereby granted", "relay-03",
	} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, "+", `\u002b`)) {
			t.Errorf("no %q in the page", want)
		}
	}
	// It asks nobody for anything.
	for _, m := range regexp.MustCompile(`(?i)(?:src|href|action|srcset|poster|@import|url\()\s*=?\s*["'(]?\s*(?:https?:)?//[^"' )]*`).FindAllString(text, -1) {
		t.Errorf("the page loads %s", m)
	}
	if again := page(t, synthetic(30)); again != text {
		t.Error("the same runs make another page")
	}
	if n := len(text); n > 1<<20 {
		t.Errorf("the page has %d bytes", n)
	}
}

// A name may be anything: it is text in the page, and ends neither an attribute nor a script.
func TestHostileNames(t *testing.T) {
	const evil = `</script><img src=x onerror=alert(1)>"'&{{.}}<!--` + "\u2028\x1b[31m"
	r := synthetic(1)[3]
	r.Scenario.Name, r.Strategy.Name, r.Throttle.Name = evil, evil, evil
	r.Strategy.Config = []result.Setting{{Key: evil, Value: evil}}
	r.Set = []result.Setting{{Key: evil, Value: evil}}
	r.End = result.End{How: result.ModuleFailed, Reason: evil}
	r.Findings = []result.Finding{{Invariant: evil, Text: evil, Relay: evil}}
	r.Faults = []result.Fault{{Kind: evil, Where: evil}}
	r.Relays[0].Name, r.Relays[0].Class = evil, evil
	r.Trace = &result.Trace{Relay: evil, Steps: []result.Step{{Direction: evil, What: evil, Text: evil}}}
	text := page(t, []*result.Run{r})
	if strings.Contains(text, "<img") || strings.Count(text, "</script>") != 3 || strings.Contains(text, "<!--\u2028") {
		t.Error("a name is markup")
	}
	if strings.Contains(text, `class="</`) || !strings.Contains(text, `class="line"`) {
		t.Error("a direction is a class")
	}
	var b strings.Builder
	if err := Text(&b, &gather(t, []*result.Run{r}).Outcomes, 80, func(s string) string { return strings.ReplaceAll(s, "\x1b", "?") }, asIs); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Errorf("a name rules the terminal: %q", b.String())
	}
}

// The policy of the page names its scripts as they are.
func TestPolicy(t *testing.T) {
	text := page(t, synthetic(2))
	scripts := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(text, -1)
	if len(scripts) != 2 {
		t.Fatalf("%d scripts", len(scripts))
	}
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)[1])
	for _, s := range scripts {
		if !strings.Contains(policy, hash(s[1])) {
			t.Errorf("the policy %s lacks a script of %d bytes", policy, len(s[1]))
		}
	}
}

// A page of many seeds, relays and steps has what a person can read, and says what is left out.
func TestLargePage(t *testing.T) {
	var runs []*result.Run
	for seed := range uint64(600) {
		r := &result.Run{Scenario: result.Scenario{Name: "large", Duration: 30 * 86400 * second}, Level: result.Model, Seed: seed, Strategy: &result.Module{Name: "a"},
			End: result.End{How: result.Finished}, Series: result.Series{Every: second}, LoadEvery: second}
		for i := range 1000 {
			r.Series.Completeness = append(r.Series.Completeness, float64(i)/1000)
			r.Series.BytesUp, r.Series.BytesDown = append(r.Series.BytesUp, int64(i)), append(r.Series.BytesDown, int64(i))
		}
		for i := range 60 {
			r.Relays = append(r.Relays, result.Relay{Name: fmt.Sprint("relay", i), BytesUp: int64(i), Load: make([]int64, 500)})
		}
		for i := range 1000 {
			r.Findings = append(r.Findings, result.Finding{Invariant: "i", Text: fmt.Sprint(i)})
		}
		r.Trace = &result.Trace{Relay: "relay0"}
		for range 1000 {
			r.Trace.Steps = append(r.Trace.Steps, result.Step{What: "REQ"})
		}
		runs = append(runs, r)
		if seed == 30 { // the others are small: the test need not write them all
			for ; seed < 599; seed++ {
				runs = append(runs, &result.Run{Scenario: r.Scenario, Level: r.Level, Seed: seed + 1, Strategy: r.Strategy, End: r.End})
			}
			break
		}
	}
	text := page(t, runs)
	for _, want := range []string{"and 30950 more", "20 relays with less traffic", "100 more seeds are in runs.csv", "Sequences of 7 more runs", "600 later steps left out"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := len(text); n > 3<<20 {
		t.Errorf("the page has %d bytes", n)
	}
}

func TestBands(t *testing.T) {
	var curves []curve
	for i := range 11 {
		c := curve{every: 2, bytes: []float64{float64(i), 10 * float64(i), 5}}
		if i >= 5 { // these were cut short
			c.bytes = c.bytes[:2]
		}
		curves = append(curves, c)
	}
	curves = append(curves, curve{every: 3, bytes: []float64{1e9, 1e9, 1e9}}, curve{every: 2})
	times, b := bands(curves, func(c *curve) []float64 { return c.bytes })
	if fmt.Sprint(times, b) != "[0 2] {[1 10] [5 50] [9 90]}" {
		t.Errorf("%v %v", times, b)
	}
	if times, _ := bands(nil, func(c *curve) []float64 { return c.bytes }); times != nil {
		t.Errorf("%v", times)
	}
}

// Worlds that differ in one number are drawn over it.
func TestSweep(t *testing.T) {
	var runs []*result.Run
	for _, rate := range []string{"250", "10", "50"} {
		for _, r := range synthetic(3) {
			r.Set = []result.Setting{{Key: "relays.rate", Value: rate}, {Key: "same", Value: "1"}}
			runs = append(runs, r)
		}
	}
	s := gather(t, runs).sweep()
	if s == nil || s.Key != "relays.rate" || fmt.Sprint(s.Values) != "[10 50 250]" || len(s.Variants) != 4 || len(s.Measures) != 3 || len(s.Measures[0].Means[3]) != 3 {
		t.Fatalf("%+v", s)
	}
	text := page(t, runs)
	for _, want := range []string{`<a href="#world-2">`, "Over <code>relays.rate</code>", "<title>3 worlds"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	runs[0].Set[0].Value = "NaN"
	if s := gather(t, runs).sweep(); s != nil {
		t.Errorf("over NaN: %+v", s)
	}
	runs[0].Set = []result.Setting{{Key: "relays.rate", Value: "9"}, {Key: "same", Value: "2"}}
	if s := gather(t, runs).sweep(); s != nil {
		t.Errorf("two things differ: %+v", s)
	}
}

// On a narrow terminal the variants stand below each other, and no line is too long.
func TestNarrowText(t *testing.T) {
	r := gather(t, synthetic(20))
	for _, width := range []int{0, 40, 60, 80, 200} {
		var b strings.Builder
		if err := Text(&b, &r.Outcomes, width, asIs, asIs); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width {
				t.Errorf("%d: %d characters: %s", width, n, line)
			}
		}
		blocks := map[int]int{0: 1, 40: 4, 60: 2, 80: 2, 200: 1}[width]
		if n := strings.Count(b.String(), "\nstaleness p99  "); n != blocks {
			t.Errorf("%d: %d blocks, want %d", width, n, blocks)
		}
		for _, want := range []string{"sampling + polite", "-48 %", "18 of 20", "seed 5"} {
			if !strings.Contains(strings.ReplaceAll(b.String(), "\n", " "), want) {
				t.Errorf("%d: no %q in\n%s", width, want, b.String())
			}
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		x    float64
		u    result.Unit
		want string
	}{
		{1, result.Share, "100 %"}, {0.999999, result.Share, ">99.99 %"}, {0.000001, result.Share, "<0.01 %"}, {0.5, result.Share, "50 %"}, {0.9988, result.Share, "99.88 %"},
		{0, result.Time, "0"}, {0.0421, result.Time, "42 ms"}, {65.55, result.Time, "65.5 s"}, {600, result.Time, "10 min"}, {100000, result.Time, "27.8 h"}, {1e6, result.Time, "11.6 d"},
		{3, result.Hours, "3 h"}, {0, result.Bytes, "0 B"}, {1023, result.Bytes, "1023 B"}, {1 << 20, result.Bytes, "1 MiB"}, {1.5 * (1 << 30), result.Bytes, "1.5 GiB"},
		{12, result.Count, "12"}, {12.25, result.Count, "12.2"}, {1104.6, result.Count, "1105"}, {12500, result.Count, "12.5 k"}, {3.1e9, result.Count, "3.1 G"}, {0.305, result.Index, "0.30"},
	} {
		if got := format(c.x, c.u); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.x, c.u, got, c.want)
		}
	}
}

func asIs(s string) string { return s }

// Two versions of one variant are compared by seed, and a gate says what may not get worse.
func TestDiff(t *testing.T) {
	all := synthetic(20)
	of := func(i int, change func(*result.Run)) []*result.Run {
		var runs []*result.Run
		for n, r := range all {
			if n%4 == i {
				bare := *r
				bare.Series, bare.Relays, bare.Staleness = result.Series{}, nil, result.Histogram{}
				change(&bare)
				runs = append(runs, &bare)
			}
		}
		return runs
	}
	scale := func(m result.Measure, by float64) func(*result.Run) {
		return func(r *result.Run) {
			x, _ := r.Measures.Get(m)
			r.Measures.Set(m, x*by)
		}
	}
	same := func(*result.Run) {}
	for _, c := range []struct {
		name           string
		before, after  []*result.Run
		gates          string
		failed, output string
	}{
		{"same", of(0, same), of(0, same), "bytes,completeness", "", "the same: 16 measures"},
		{"better", of(0, same), of(0, scale(result.BytesDown, 0.5)), "bytes", "", "45 %"},
		{"worse", of(0, same), of(0, scale(result.BytesDown, 1.1)), "bytes", "9.0 % more bytes", "worse"},
		{"worse, allowed", of(0, same), of(0, scale(result.BytesDown, 1.1)), "bytes=10%", "", "worse"},
		{"worse, elsewhere", of(0, same), of(0, scale(result.BytesDown, 1.1)), "staleness_p99", "", "worse"},
		{"less complete", of(0, same), of(0, scale(result.Completeness, 0.99)), "completeness=0.5%", "LOST 20 events that layered-v2 + polite has (completeness 1.0 points lower), in 20 of 20 seeds", "worse"},
		{"less complete, allowed", of(0, same), of(0, scale(result.Completeness, 0.99)), "completeness=1%", "", "worse"},
		{"renamed", of(0, same), of(1, same), "bytes", "", "layered-v2 + polite → layered-v4 + polite in small wire, 20 seeds"},
		{"broken", of(0, same), of(3, same), "duplicates", "seed 5: an invariant was broken", ""},
		{"broken before", of(3, same), of(3, same), "bytes", "", "the same"},
	} {
		pairs, missing := Match(&gather(t, c.before).Outcomes, &gather(t, c.after).Outcomes)
		if len(pairs) != 1 || len(missing) != 0 {
			t.Errorf("%s: %v, %v", c.name, pairs, missing)
			continue
		}
		var gates []stats.Gate
		for text := range strings.SplitSeq(c.gates, ",") {
			g, err := stats.ParseGate(text)
			if err != nil {
				t.Fatal(err)
			}
			gates = append(gates, g)
		}
		var b strings.Builder
		changes, err := Diff(&b, pairs[0], gates, 0, asIs, asIs)
		failed := changes.Worse
		if err != nil || changes.Seeds != 0 || (len(failed) == 0) != (c.failed == "") || !strings.Contains(strings.Join(failed, "\n"), c.failed) || !strings.Contains(b.String(), c.output) {
			t.Errorf("%s: %q, %v\n%s", c.name, failed, err, b.String())
		}
	}
	// Nothing to compare is no pass.
	pairs, _ := Match(&gather(t, of(0, same)[:10]).Outcomes, &gather(t, of(0, same)[10:]).Outcomes)
	if _, err := Diff(new(strings.Builder), pairs[0], nil, 0, asIs, asIs); err == nil {
		t.Error("other seeds are compared")
	}
	_, missing := Match(&gather(t, synthetic(2)).Outcomes, &gather(t, of(1, same)).Outcomes)
	if len(missing) != 3 {
		t.Errorf("%v", missing)
	}
	for _, wrong := range []string{"beauty", "bytes=", "bytes=5", "bytes=-1%", "bytes=x%", "bytes=NaN%"} {
		if _, err := stats.ParseGate(wrong); err == nil {
			t.Errorf("%s is a gate", wrong)
		}
	}
}
