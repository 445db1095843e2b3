package author

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/host/memfacts"
	"talon/host/plugin"
	"talon/internal/testkit"
)

const loud = "READ THIS NOW, ALL OF YOU OUT THERE"

func TestAsk(t *testing.T) {
	r := running(t, built(t, "examples/hello-policy", "[config]\nmax_capitals = 30\n"), Options{Store: new(memfacts.Facts)})
	for text, want := range map[string]string{
		`{"kind":1,"content":"` + loud + `"}`:          "pass",
		`{"kind":1,"content":"` + loud + loud + `"}`:   "reject shouting",
		`{"function":"connect","open":1,"event":null}`: "failure",
	} {
		if a := r.Ask(t.Context(), question(t, text)); a.Verdict() != want || a.Err == nil && a.Fuel == 0 {
			t.Errorf("%s: %+v, want %s", text, a, want)
		}
	}
	a := r.Ask(t.Context(), question(t, `{"function":"connect","open":1}`))
	if a.Err == nil || !strings.Contains(a.Err.Error(), "file:1 asks connect, which the module does not have: functions of its manifest are") {
		t.Errorf("connect: %v", a.Err)
	}
}

// TestRemembers sends one author's events, a second apart, through buckets that the
// module keeps.
func TestRemembers(t *testing.T) {
	r := running(t, built(t, "plugins/rate", "[config]\nper_author_events_per_minute = 2\n"), Options{Store: new(memfacts.Facts)})
	var got []string
	for i, at := range []int{0, 1, 2, 63} {
		a := r.Ask(t.Context(), question(t, fmt.Sprintf(`{"kind":1,"pubkey":"01","created_at":%d}`, 1700000000+at)))
		got = append(got, fmt.Sprint(i, a.Action))
	}
	if want := []string{"0 pass", "1 pass", "2 reject", "3 pass"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSets(t *testing.T) {
	s := built(t, "plugins/rate", "[config]\nper_author_bytes_per_day = 1\n\n[sets.trusted]\nfile = 'trusted.txt'\n")
	if _, err := s.Run(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "set trusted: ") {
		t.Errorf("without the file of the set: %v", err)
	}
	put(t, filepath.Join(s.dir(), "trusted.txt"), strings.Repeat("02", 32)+"\n")
	r := running(t, s, Options{Store: new(memfacts.Facts)})
	for text, want := range map[string]host.Action{
		`{"kind":1,"pubkey":"01"}`:                                                                     host.Reject,
		`{"kind":1,"pubkey":"` + strings.Repeat("02", 32) + `"}`:                                       host.Pass,
		`{"event":{"kind":1,"pubkey":"` + strings.Repeat("02", 32) + `"},"sets":{"trusted":[]}}`:       host.Reject,
		`{"event":{"kind":1,"pubkey":"03"},"sets":{"trusted":["03` + strings.Repeat("00", 31) + `"]}}`: host.Pass,
		`{"event":{"kind":1,"pubkey":"03"},"sets":{"another":["03` + strings.Repeat("00", 31) + `"]}}`: host.Reject,
	} {
		if a := r.Ask(t.Context(), question(t, text)); a.Action != want {
			t.Errorf("%s: %+v, want %v", text, a, want)
		}
	}
}

// TestVectorsWithSets lets vectors ask the side-car's sets, and those of their own.
func TestVectorsWithSets(t *testing.T) {
	s := built(t, "plugins/rate", "[sets.trusted]\nfile = 'trusted.txt'\n")
	put(t, filepath.Join(s.dir(), "trusted.txt"), strings.Repeat("02", 32)+"\n")
	trusted := `{"config":{"per_author_bytes_per_day":1},"event":{"kind":1,"pubkey":"` + strings.Repeat("02", 32) + `"}`
	wantTested(t, s, trusted+`,"want":{"action":"pass"}}`+"\n"+trusted+`,"sets":{"trusted":[]},"want":{"action":"reject"}}`, "v.jsonl:1 <nil>", "v.jsonl:2 <nil>")
}

// wantTested asks vectors, and wants these results.
func wantTested(t *testing.T, s *Source, text string, want ...string) (results []Tested) {
	t.Helper()
	vectors, err := s.ReadVectors("v.jsonl", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = s.Test(t.Context(), vectors, Options{Store: new(memfacts.Facts)}, func(r Tested) {
		results, got = append(results, r), append(got, fmt.Sprint(r.Where, " ", r.Err))
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return results
}

// refusesVectors wants what is wrong with vectors to be said.
func refusesVectors(t *testing.T, s *Source, wanted map[string]string) {
	t.Helper()
	for text, want := range wanted {
		if _, err := s.ReadVectors("v", strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestVectors(t *testing.T) {
	s := built(t, "plugins/rate", "[config]\nper_author_events_per_minute = 1\n")
	const text = `{"name":"first","config":{"per_author_events_per_minute":2},"event":{"kind":1,"pubkey":"01"},"want":{"action":"pass"}}
{"then":true,"event":{"kind":1,"pubkey":"01"},"want":{"action":"pass"}}
{"then":true,"event":{"kind":1,"pubkey":"01"},"want":{"action":"reject"}}
{"event":{"kind":1,"pubkey":"01"},"want":{"action":"pass","rule":"x"}}
{"then":true,"event":{"kind":1,"pubkey":"01"},"want":{"action":"reject"}}
`
	wantTested(t, s, text, "v.jsonl:1 <nil>", "v.jsonl:2 <nil>", "v.jsonl:3 <nil>",
		`v.jsonl:4 vector "v.jsonl:4": the answer is pass, want pass by "x"`,
		`v.jsonl:5 vector "v.jsonl:5": the answer is pass, want reject`)
	refusesVectors(t, s, map[string]string{
		`{"event":{"kind":1}}`: `v:1: want is missing: say what the module must answer`,
		`{"event":{"kind":1},"want":{"action":"pass"},"config":{"per_author":1}}`:                                                        `v:1: config per_author = 1: want one of the keys `,
		`{"event":{"kind":1},"want":{"action":"pass"},"then":true}`:                                                                      `v:1: then goes on where the line before ended, and there is none`,
		`{"event":{"kind":1},"want":{"action":"hold"}}` + "\n" + `{"then":true,"config":{},"event":{"kind":1},"want":{"action":"hold"}}`: `v:2: then goes on with the settings of the line before`,
	})
}

func TestThrottleVectors(t *testing.T) {
	s := built(t, "examples/hello-throttle", "")
	const text = `{"name":"one at once","function":"throttle_admit","config":{"in_flight":1},"request":{},"want":{"start":true}}
{"then":true,"function":"throttle_admit","request":{"subject":{"in_flight":1}},"want":{"start":false,"wait":0}}
{"function":"throttle_admit","request":{"subject":{"in_flight":1}},"want":{"start":false}}
{"function":"throttle_delay","request":{"subject":{"kind":"repository"}},"want":{"delay":1000}}
`
	for _, r := range wantTested(t, s, text, "v.jsonl:1 <nil>", "v.jsonl:2 <nil>",
		`v.jsonl:3 vector "v.jsonl:3": the answer is {"start":true,"wait":0}, want {"start":false}`, "v.jsonl:4 <nil>") {
		if r.Fuel <= 0 {
			t.Errorf("%s took no fuel", r.Where)
		}
	}
	refusesVectors(t, s, map[string]string{
		`{"function":"throttle_admit","request":{}}`:                       `v:1: want: name at least one field`,
		`{"function":"throttle_admit","request":{},"want":{"strat":true}}`: `v:1: want: there is no field "strat"`,
	})
}

func TestSelfTest(t *testing.T) {
	compiles(t, golang.name)
	if err := built(t, "examples/hello-policy", "").SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
	if err := built(t, "examples/hello-throttle", "").SelfTest(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := built(t, "examples/hello-throttle", "").Run(t.Context(), Options{})
	if err == nil || !strings.Contains(err.Error(), "hello-throttle is for throttle and gives no verdicts") {
		t.Errorf("a throttle as a policy: %v", err)
	}
}

func TestCompare(t *testing.T) {
	s := built(t, "examples/hello-policy", "")
	a := running(t, s, Options{Store: new(memfacts.Facts)})
	b := running(t, built(t, "examples/hello-policy", "[config]\nmax_capitals = 5\n"), Options{Store: new(memfacts.Facts)})
	var c Comparison
	throttle := question(t, `{"function":"throttle_admit","request":{},"want":{"start":true}}`)
	if got := a.Ask(t.Context(), throttle); got.Err == nil || !strings.Contains(got.Err.Error(), "throttle_admit, which gives no verdict") {
		t.Errorf("a verdict of a throttle's vector: %+v", got)
	}
	for _, content := range []string{"hello", "HELLO YOU", "HELLO WORLD", "HELLO PEOPLE", "HELLO NOSTR", loud} {
		c.Compare(t.Context(), a, b, question(t, `{"kind":1,"id":"05","content":"`+content+`"}`))
	}
	list := c.Differences()
	if c.Asked != 6 || c.Differ != 4 || len(list) != 1 {
		t.Fatalf("%d of %d differ: %+v", c.Differ, c.Asked, list)
	}
	d := list[0]
	if c.Failed != 0 {
		t.Errorf("failures: %s", c.FirstFailure)
	}
	if d.A != "pass" || d.B != "reject shouting" || d.Count != 4 || len(d.First) != 3 || d.First[0].B.Said() != "blocked: please do not shout" || !strings.HasPrefix(d.First[0].Event, "0500") {
		t.Errorf("%+v", d)
	}
}

// Two that fail alike give the same answer, and none is a verdict.
func TestCompareFailures(t *testing.T) {
	s := built(t, "examples/hello-policy", "")
	a, b := running(t, s, Options{}), running(t, s, Options{})
	var c Comparison
	c.Compare(t.Context(), a, b, question(t, `{"kind":1,"content":"hello"}`))
	c.Compare(t.Context(), a, b, question(t, `{"function":"connect","open":1}`))
	if c.Asked != 2 || c.Differ != 0 || c.Failed != 1 || !strings.HasPrefix(c.FirstFailure, "file:1: ") {
		t.Errorf("%+v", c)
	}
}

func TestInspect(t *testing.T) {
	in, err := built(t, "plugins/rate", "").Inspect(t.Context())
	if err != nil || in.Problem != "" || !slices.Equal(in.Imports, []string{"bucket.take", "kv.incr", "sets.contains"}) || in.Fuel != 2_000_000 || in.Vectors == 0 {
		t.Errorf("%+v, %v", in, err)
	}
	bytes := func(n int64) string { return fmt.Sprint(n) }
	wrong, err := built(t, "plugins/rate", "capabilities = ['kv']\n").Inspect(t.Context())
	if err != nil || wrong.Fuel != in.Fuel {
		t.Errorf("%+v, %v", wrong, err)
	}
	want := []Change{{"problem", "", "a relay refuses it: the module imports sets.contains, which the operator does not grant it: see capabilities in its side-car"}}
	got := Changes(in.Rows(bytes), wrong.Rows(bytes))
	if len(got) != 1 || !strings.HasPrefix(got[0].After, "a relay refuses it: the module imports ") || got[0].Label != want[0].Label {
		t.Errorf("%+v, want %+v", got, want)
	}
	other, err := built(t, "examples/hello-policy", "").Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]Change{}
	for _, c := range Changes(in.Rows(bytes), other.Rows(bytes)) {
		changed[c.Label] = c
	}
	if c := changed["capabilities"]; c.Before != "bucket.take kv.incr sets.contains" || c.After != "none" {
		t.Errorf("capabilities: %+v", c)
	}
	if c := changed["setting max_capitals"]; c.Before != "" || !strings.HasPrefix(c.After, "a whole number, at least 1; default 20. ") {
		t.Errorf("a new setting: %+v", c)
	}
}

func TestFindRefuses(t *testing.T) {
	s := built(t, "examples/hello-policy", "")
	dir := t.TempDir()
	put(t, filepath.Join(dir, "text.wasm"), "text")
	put(t, filepath.Join(dir, "none.wasm"), "\x00asm\x01\x00\x00\x00")
	big := filepath.Join(dir, "big.wasm")
	put(t, big, "")
	if err := os.Truncate(big, maxModule+1); err != nil {
		t.Fatal(err)
	}
	side := filepath.Join(dir, "side.toml")
	put(t, side, "moode = 1\n")
	pinned := filepath.Join(dir, "pinned.toml")
	put(t, pinned, "sha256 = '"+strings.Repeat("ab", 32)+"'\n")
	for _, test := range []struct{ file, side, want string }{
		{filepath.Join(dir, "no.wasm"), "", "no.wasm: no such file"},
		{filepath.Join(dir, "text.wasm"), "", "not a WebAssembly module"},
		{filepath.Join(dir, "none.wasm"), "", "the module has no manifest: hand the text"},
		{big, "", "has more than 33554432 bytes"},
		{s.File, filepath.Join(dir, "no.toml"), "read the side-car: "},
		{s.File, side, "side.toml: line 1: moode"},
		{s.File, pinned, "pinned.toml is for the module with sha256 abab"},
	} {
		if _, err := Find(t.Context(), test.file, test.side, os.Stderr); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %s", test.file, test.side, err, test.want)
		}
	}
}

func sift(t *testing.T, r *Runner, pass bool, lines ...string) (out []sifted, log string) {
	t.Helper()
	var w, said bytes.Buffer
	if err := r.RunStrfry(t.Context(), strings.NewReader(strings.Join(lines, "\n")), &w, pass, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(w.String()) {
		var a sifted
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, a)
	}
	return out, said.String()
}

func TestSift(t *testing.T) {
	r := running(t, built(t, "examples/hello-policy", ""), Options{})
	if err := r.CheckSift(false); err != nil {
		t.Error(err)
	}
	ask := func(event string) string {
		return `{"type":"new","event":` + event + `,"receivedAt":9,"sourceType":"IP4","sourceInfo":"192.0.2.1"}`
	}
	quiet := eventLine(7, 10, "")
	shouts := strings.Replace(eventLine(8, 10, ""), `"content":"8"`, `"content":"`+loud+`"`, 1)
	id := func(n byte) string { return host.ID(bytes.Repeat([]byte{n}, 32)).String() }
	got, log := sift(t, r, true, ask(quiet), "garbage", "null", ask(`{"id":"x"}`), `{"type":"lookback","event":`+quiet+`,"receivedAt":9}`, ask(shouts))
	want := []sifted{{id(7), "accept", ""}, {id(8), "reject", "blocked: please do not shout"}}
	if !slices.Equal(got, want) || strings.Count(log, "this is not answered") != 4 {
		t.Errorf("%+v, want %+v\n%s", got, want, log)
	}
	if got, _ := sift(t, r, false, ask(quiet)); len(got) != 1 || got[0].Action != "reject" {
		t.Errorf("no opinion counts as refusal: %+v", got)
	}
	for action, want := range map[host.Action]string{host.Accept: "accept", host.ShadowReject: "shadowReject", host.Hold: "reject", host.RequireAuth: "reject"} {
		if s := (&Answer{Ruling: host.Ruling{Action: action}}).sifted("x", true); s.Action != want {
			t.Errorf("%v becomes %+v", action, s)
		}
	}
	if s := (&Answer{Err: context.Canceled}).sifted("x", true); s.Action != "reject" || s.Msg != reasonFailed {
		t.Errorf("a failure becomes %+v", s)
	}
}

func TestCheckSift(t *testing.T) {
	compiles(t, golang.name)
	all := built(t, "sdk/policy/testdata/guests/all", "")
	err := running(t, all, Options{}).CheckSift(true)
	if err == nil || !strings.Contains(err.Error(), "asks for git.has, which a plugin of strfry cannot") {
		t.Errorf("git: %v", err)
	}
	idle := running(t, built(t, "plugins/open", ""), Options{})
	parents := running(t, built(t, "examples/thread-parents", ""), Options{})
	if err := parents.CheckSift(false); err == nil || !strings.Contains(err.Error(), "asks for store.referenced, and a plugin of strfry does not see what is stored") {
		t.Errorf("store: %v", err)
	}
	if err := parents.CheckSift(true); err != nil {
		t.Errorf("with a file of what is stored: %v", err)
	}
	if err := idle.CheckSift(false); err == nil || !strings.Contains(err.Error(), "decides about no events with these settings") {
		t.Errorf("idle: %v", err)
	}
}

func TestMeasure(t *testing.T) {
	compiles(t, golang.name)
	s := built(t, "examples/hello-policy", "")
	questions := []*Case{question(t, `{"kind":1,"content":"hello"}`), question(t, `{"kind":1,"content":"`+loud+`"}`)}
	m, err := s.Bench(t.Context(), questions, time.Millisecond, Options{Store: new(memfacts.Facts)})
	if err != nil {
		t.Fatal(err)
	}
	if m.Decisions < 2 || m.Mean <= 0 || m.P50 > m.P99 || m.CPU <= 0 || m.Fuel50 <= 0 || m.Fuel50 >= m.Fuel99 || m.Cold <= m.Warm || m.Memory <= 0 || m.Memory > m.MemoryLimit {
		t.Errorf("%+v", m)
	}
	for text, want := range map[string]string{
		`{"function":"connect","open":1}`: "functions of its manifest are",
		"":                                "the file is empty",
	} {
		var list []*Case
		if text != "" {
			list = append(list, question(t, text))
		}
		if _, err := s.Bench(t.Context(), list, time.Millisecond, Options{Store: new(memfacts.Facts)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// The cost of a plugin includes the processor time of its process, and not only the wait
// for it.
func TestProcessCPU(t *testing.T) {
	work := `while read -r line; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo '{"id":"x","action":"accept"}'; done`
	p, err := StartProcess(t.Context(), "/bin/sh -c '"+strings.ReplaceAll(work, "'", `'\''`)+"'", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := p.Bench(t.Context(), []*Case{question(t, eventLine(1, 10, ""))}, 20*time.Millisecond)
	if err != nil || m.CPU < 500*time.Microsecond {
		t.Errorf("%v of CPU for a decision that counts to 20,000, %v", m.CPU, err)
	}
}

func TestProcess(t *testing.T) {
	questions := []*Case{question(t, eventLine(1, 10, "")), question(t, eventLine(2, 10, ""))}
	for script, want := range map[string]string{
		`while read -r line; do echo '{"id":"x","action":"accept"}'; done`: "",
		`while read -r line; do echo '{"id":"x","action":"maybe"}'; done`:  "want an id, and accept, reject or shadowReject",
		`exit 1`: "the plugin",
	} {
		p, err := StartProcess(t.Context(), "/bin/sh -c '"+strings.ReplaceAll(script, "'", `'\''`)+"'", os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Bench(t.Context(), questions, time.Millisecond)
		p.Close()
		if want == "" && (err != nil || m.Decisions < 2 || m.Mean <= 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v", script, m, err)
		}
	}
	if _, err := StartProcess(t.Context(), "/nowhere/plugin", os.Stderr); err == nil || !strings.Contains(err.Error(), "want a program that can be executed") {
		t.Errorf("no program: %v", err)
	}
	for text, want := range map[string]string{"python": "want exec:PATH", "exec:": "want exec:PATH", "exec:/": "this is a folder",
		"exec:/nowhere/plugin": "want a program that can be executed"} {
		if _, err := Command(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestClaim(t *testing.T) {
	s := built(t, "plugins/rate", "")
	signer := testkit.NewSigner(7)
	sign := func(change func(*host.Event)) []byte {
		e := s.Claim("https://example.com/rate.wasm")
		if change != nil {
			change(e)
		}
		e.CreatedAt = 5
		signer.Sign(e)
		return e.JSON
	}
	e, err := s.Verify(sign(nil))
	if err != nil || e.PubKey != signer.PubKey {
		t.Errorf("%+v, %v", e, err)
	}
	set := func(name, value string) func(*host.Event) {
		return func(e *host.Event) {
			e.Tags = slices.DeleteFunc(e.Tags, func(tag host.Tag) bool { return tag[0] == name })
			if value != "" {
				e.Tags = append(e.Tags, host.Tag{name, value})
			}
		}
	}
	good := string(sign(nil))
	for name, test := range map[string]struct {
		text []byte
		want string
	}{
		"no event":           {[]byte("{}"), "the signature is no event"},
		"too long":           {make([]byte, plugin.MaxSignature+1), "longer than"},
		"changed":            {[]byte(strings.Replace(good, "rate.wasm", "other.wasm", 1)), "was changed after it was made"},
		"another kind":       {sign(func(e *host.Event) { e.Kind = 1 }), "of kind 1: want kind 1063"},
		"another file":       {sign(set("x", strings.Repeat("ab", 32))), "is for another file: it names sha256"},
		"no hash":            {sign(set("x", "")), "does not name one hash"},
		"two hashes":         {sign(func(e *host.Event) { e.Tags = append(e.Tags, host.Tag{"x", "y"}) }), "does not name one hash"},
		"fewer capabilities": {sign(set("capability", "log")), `the signature is for the capabilities ["log"]`},
	} {
		if _, err := s.Verify(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

func TestReplay(t *testing.T) {
	r := Replay{Questions: []*Case{question(t, `{"kind":1,"content":"HELLO NOSTR"}`), question(t, `{"kind":1,"content":"hello"}`)}}
	lax, strict := built(t, "examples/hello-policy", ""), built(t, "examples/hello-policy", "config = {max_capitals = 5}\n")
	found, err := r.Run(t.Context(), lax, Options{})
	if err != nil || found.Changes != nil || found.Recorded != nil || fmt.Sprint(found.Verdicts()) != "[{pass 2}]" {
		t.Errorf("first: %+v, %v", found, err)
	}
	found, err = r.Run(t.Context(), strict, Options{})
	if err != nil || found.Changes.Differ != 1 || fmt.Sprint(found.Verdicts()) != "[{pass 1} {reject shouting 1}]" {
		t.Errorf("then: %+v, %v", found, err)
	}

	// Recorded lines: which the module answers as it was recorded, if others decided too.
	recorded := func(differ, unseen int, lines ...string) {
		t.Helper()
		var r Replay
		for _, line := range lines {
			r.Questions = append(r.Questions, question(t, line))
		}
		found, err := r.Run(t.Context(), strict, Options{})
		if err != nil || found.Failed != 0 || found.Recorded.Asked != len(lines) || found.Recorded.Differ != differ || found.Unseen != unseen {
			t.Errorf("%s\n%+v of %+v, %v", lines, found.Recorded, found, err)
		}
	}
	loud, calm := `{"event": {"kind": 1, "content": "HELLO NOSTR"}, `, `{"event": {"kind": 1, "content": "hello"}, `
	passed := `, "chain": ["hello-policy", "open"], "asked": 2, "want": {"action": "accept", "rule": "any"}}`
	recorded(0, 0,
		loud+`"by": "hello-policy", "want": {"action": "reject", "rule": "shouting"}}`,
		calm+`"by": "open"`+passed,
		loud+`"by": "lists", "chain": ["lists", "hello-policy"], "asked": 1, "want": {"action": "reject", "rule": "deny"}}`,
		calm+`"by": "open", "chain": ["open"], "asked": 1, "want": {"action": "accept"}}`,
		calm+`"by": "", "chain": [], "want": {"action": "reject", "rule": "default", "reason": "blocked: no policy accepts this event"}}`,
		calm+`"by": "hello-policy", "want": {"action": "pass"}}`,
		`{"function": "connect", "by": "door", "chain": ["door"], "asked": 1, "want": {"action": "reject", "rule": "full"}}`)
	recorded(5, 1,
		loud+`"by": "open"`+passed,
		loud+`"by": "open", "chain": ["open"], "asked": 1, "want": {"action": "accept", "rule": "any"}}`,
		calm+`"by": "before", "want": {"action": "reject", "rule": "shouting"}}`,
		calm+`"by": "hello-policy", "unseen": ["kv.get"], "want": {"action": "reject", "rule": "shouting"}}`,
		calm+`"want": {"action": "accept"}}`)
}

// TestServiceOf reads how the relay of a recording is reached, and leaves the lines as
// they are.
func TestServiceOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n\n": "", "{}": "", "x\n": "",
		"\n{\"service\": {\"domain\": \"a.test\"}}\n{\"service\": {\"domain\": \"b.test\"}}":               "a.test",
		`{"event": {"content": "` + strings.Repeat("x", 1<<20) + `"}, "service": {"domain": "long.test"}}`: "long.test",
		strings.Repeat("x", maxLine+100_000): "",
	} {
		service, rest := ServiceOf(strings.NewReader(text))
		got := ""
		if service != nil {
			got = service.Domain
		}
		if left, err := io.ReadAll(rest); got != want || string(left) != text || err != nil {
			t.Errorf("%.40q: %q, want %q; %d bytes left of %d, %v", text, got, want, len(left), len(text), err)
		}
	}
}

func TestWatch(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "live.jsonl")
	put(t, filepath.Join(dir, "main.go"), "one")
	ctx, stop := context.WithCancel(t.Context())
	tick, seen, calls := make(chan time.Time), make(chan string, 1), 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Each call builds.
		Watch(ctx, dir, tick, func() {
			put(t, filepath.Join(dir, "m.wasm"), "built")
			put(t, filepath.Join(dir, "Cargo.lock"), "built")
			if calls++; calls == 1 {
				put(t, filepath.Join(dir, "main.go"), "changed during the first build")
			}
			seen <- "changed"
		}, other)
	}()
	look := func() string {
		tick <- time.Time{}
		tick <- time.Time{} // the first has been looked at
		select {
		case s := <-seen:
			return s
		default:
			return ""
		}
	}
	<-seen // the first build
	for _, step := range []struct{ file, text, want string }{
		{"", "", "changed"}, // what was changed meanwhile
		{"", "", ""},
		{"main.go", "more", "changed"},
		{"", "", ""},
		{"m.wasm", "another build", ""},
		{".main.go.swp", "an editor", ""},
		{"m.toml", "", "changed"},
		{other, "recorded", "changed"},
		{"", "", ""},
	} {
		if step.file != "" {
			// In one step: a look may fall between the old text and the new.
			fresh := filepath.Join(dir, ".fresh")
			put(t, fresh, step.text)
			to := filepath.Join(dir, step.file)
			if step.file == other {
				to = other
			}
			if err := os.Rename(fresh, to); err != nil {
				t.Fatal(err)
			}
		}
		if got := look(); got != step.want {
			t.Errorf("after %q: %q, want %q", step.file, got, step.want)
		}
	}
	stop()
	<-done
	file := filepath.Join(dir, "m.wasm")
	if files := snapshot(file); len(files) != 2 {
		t.Errorf("of a module's file: %v", files)
	}
}
