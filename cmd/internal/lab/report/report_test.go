package report

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"talon/cmd/internal/lab/result"
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
		"layered-v5 &#43; polite beside layered-v2 &#43; polite: 4", "sampling &#43; polite did not finish 3 of 30 runs.",
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
