package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The built-in networks are those that published results name. A new key must not change them: give it
// json:",omitzero". If one is changed on purpose, its results are made again.
func TestDigests(t *testing.T) {
	for name, want := range map[string]string{
		"copies": "6d9119ac8a1a1c73", "crowd": "d3e57293cad99a09", "git": "cc5399fcc60c2678", "late": "4d324e5cb338e129", "liars": "e1883e0e33143a40",
		"limits": "1977f143280e445c", "lines": "eb7f4376ed65da58", "outages": "f4649dd5b8b205f5", "pages": "93b7ad9ec8408ab3", "policy": "f89e3c915924f08a",
		"restarts": "da18feeea6a09289", "retention": "718d8b19080018cb", "small": "212bd79060c842c9",
	} {
		if s, _, err := Builtin(name); err != nil || s.Digest() != want {
			t.Errorf("%s is another network: digest %s, it was %s (%v)", name, s.Digest(), want, err)
		}
	}
}

// Measured latencies and outages come from files, and a scenario that was opened needs them no more.
func TestMeasured(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("latency.csv", "relay,from,ms\r\n# of one day\r\nx,0,35.5\r\ny,0,80\r\nx,1h,200\r\n")
	write("outages.csv", "x,2h,3h,502\nx,600,660\n")
	path := write("mine.toml", least+"latency-file = \"latency.csv\"\noutage-file = \"outages.csv\"\n[publishers]\ncopies = [40, 30, 0, 10]\n")
	s, text, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r := s.Relays["a"]
	latencies, err := r.MeasuredLatencies()
	if err != nil || len(latencies) != 2 || len(latencies[0]) != 2 || latencies[0][1] != (Step{time.Hour, 200}) || latencies[1][0] != (Step{0, 80}) {
		t.Errorf("latencies: %v, %v", latencies, err)
	}
	outages, err := r.MeasuredOutages()
	if err != nil || len(outages) != 1 || outages[0][0] != (Span{10 * time.Minute, 11 * time.Minute, 0}) || outages[0][1] != (Span{2 * time.Hour, 3 * time.Hour, 502}) {
		t.Errorf("outages: %v, %v", outages, err)
	}
	again, err := Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again.Name = s.Name; again.Digest() != s.Digest() || strings.Contains(string(text), "-file") {
		t.Errorf("the text that Open returns is another network:\n%s", text)
	}
	for text, want := range map[string]string{
		"latency-file = \"latency.csv\"\n":                             "relays.a.latency-file: want it in the file of a scenario",
		"latencies = \"x,0\"\n":                                        "relays.a.latencies: line 1: want 3 to 3 values",
		"latencies = \"x,0,-1\"\n":                                     `relays.a.latencies: line 1: "-1": want milliseconds`,
		"outages = \"x,5m,5m\"\n":                                      `relays.a.outages: line 1: "5m" to "5m": want an end after the begin`,
		"outages = \"x,now,5m\"\n":                                     `relays.a.outages: line 1: "now": want seconds, or a length of time`,
		"outages = \"x,1,2,ok\"\n":                                     `relays.a.outages: line 1: "ok": want an HTTP status`,
		"outages = \"x,1,2,99\"\n":                                     `relays.a.outages: line 1: "99": want an HTTP status`,
		"outages = \"x,1,2\\n,3,4\"\n":                                 "relays.a.outages: line 2: want the name of a relay",
		"latencies = \" ,0,1\"\n":                                      "relays.a.latencies: line 1: want the name of a relay",
		"[publishers]\ncopies = [0, 0]\n":                              "copies: want 1 to 64 numbers, one of them above 0",
		"[[fault]]\nwhat = \"limits\"\n":                               "fault[1].keys: want them with what",
		"[[fault]]\nwhat = \"limits\"\nkeys = \"x = 1\"\n":             "fault[1].keys: line 1: x: want one of the keys",
		"[[fault]]\nwhat = \"limits\"\nkeys = \"keep.seconds = 60\"\n": "fault[1].keys: want limits, rates and refusals",
	} {
		if _, err := Parse([]byte(least + text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s…", text, err, want)
		}
	}
	// With several bad files, the first by the name of the class is named.
	bad := write("bad.toml", least+"latency-file = \"none-a.csv\"\n[relays.b]\ncount = 1\noutage-file = \"none-b.csv\"\n")
	for range 20 {
		if _, _, err := Open(bad); err == nil || !strings.Contains(err.Error(), "relays.a.latency-file") {
			t.Fatalf("%v, want the error of relays.a", err)
		}
	}
	if _, err := s.With("relays.a.latency-file", "latency.csv"); err == nil {
		t.Error("--set takes a file")
	}
}

// FuzzMeasured reads lines of anybody.
func FuzzMeasured(f *testing.F) {
	f.Add("relay,from,until\nx,2h,3h,502\n# y\n\"a\n\",0,1")
	f.Fuzz(func(t *testing.T, text string) {
		r := Relays{Latencies: text, Outages: text}
		_, _ = r.MeasuredLatencies()
		outages, _ := r.MeasuredOutages()
		for _, list := range outages {
			for _, s := range list {
				if s.From < 0 || s.Until <= s.From {
					t.Fatalf("%q: %v", text, s)
				}
			}
		}
	})
}
