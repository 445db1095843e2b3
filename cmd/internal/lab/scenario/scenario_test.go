package scenario

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"talon/host"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference-lab-scenarios.md")

func TestReference(t *testing.T) {
	const file = "../../../../docs/reference-lab-scenarios.md"
	want, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the page is not what the code says: run go test ./cmd/internal/lab/scenario -rewrite")
	}
}

const least = "[relays.a]\ncount = 3\nbootstrap = 1\n"

// A wrong scenario is one sentence that says where and what is wanted.
func TestWrong(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"syntax":       {"duration = ", "line 1: "},
		"unknown key":  {least + "[talon]\nnumber = 1\n", "line 5: talon.number: want one of the keys count, profile"},
		"type":         {"quiet = 5\n", `line 1: quiet: want a length of time such as "90s"`},
		"time":         {`duration = "5 weeks"`, "line 1: duration: want a length of time"},
		"too long":     {`duration = "100000d"`, "line 1: duration: want a length of time"},
		"below":        {"[talon]\ncount = 0\n", "line 2: talon.count: want a whole number, 1 to 100"},
		"share":        {"[relays.a]\nhalf-open = 1.5\n", "line 2: relays.a.half-open: want a number, 0 to 1"},
		"one of":       {"[[fault]]\nwhat = \"fire\"\n", "line 2: fault[1].what: want one of outage, half-open"},
		"no relays":    {"", "relays: there are 0"},
		"no bootstrap": {"[relays.a]\ncount = 3\n", "relays: want bootstrap = 1 or more"},
		"profile":      {"[relays.a]\ncount = 3\nbootstrap = 1\nprofile = \"no\"\n", `relays.a: there is no profile "no"`},
		"keys":         {"[relays.a]\ncount = 3\nbootstrap = 1\nkeys = \"limits.no = 1\"\n", "relays.a: line 1: limits.no: want one of the keys"},
		"class":        {least + "[[fault]]\nwhat = \"reset\"\nclass = \"b\"\n", `fault[1].class = "b": there is no such class of relays`},
		"too few":      {"[relays.a]\ncount = 1\nbootstrap = 1\n", "repositories.relays-max = 3: want at most the 1 relays"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.text))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s…", err, c.want)
			}
		})
	}
}

func TestWith(t *testing.T) {
	s, err := Parse([]byte(least + "[relays.b]\ncount = 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, value string
		get        func(s *Scenario) any
		want       any
	}{
		{"relays.a.rate", "50", func(s *Scenario) any { return s.Relays["a"].Rate }, 50.0},
		{"relays.*.rate", "10", func(s *Scenario) any { return s.Relays["a"].Rate + s.Relays["b"].Rate }, 20.0},
		{"relays.a.profile", "strfry", func(s *Scenario) any { return s.Relays["a"].Profile }, "strfry"},
		{"relays.a.outage-every", "2h", func(s *Scenario) any { return s.Relays["a"].OutageEvery.String() }, "2h"},
		{"talon.count", "3", func(s *Scenario) any { return s.Talon.Count }, 3},
	} {
		changed, err := s.With(c.key, c.value)
		if err != nil {
			t.Errorf("%s: %v", c.key, err)
		} else if got := c.get(changed); got != c.want {
			t.Errorf("%s: got %v, want %v", c.key, got, c.want)
		} else if changed.Relays["a"].Count != 3 || changed.Digest() == s.Digest() {
			t.Errorf("%s: the rest has changed, or the digest has not", c.key)
		}
	}
	if s.Relays["a"].Rate != 0 {
		t.Error("the scenario itself has changed")
	}
	for _, c := range [][2]string{{"relays.a.rate", "much"}, {"relays.a.no", "1"}, {"x\ny", "1"}, {"talon.count", "0"}} {
		if _, err := s.With(c[0], c[1]); err == nil {
			t.Errorf("%s = %s is accepted", c[0], c[1])
		}
	}
	for key, want := range map[string]string{"relays.typo.rate": "relays.typo: want one of a, b, *", "git.x.rate": "git.x: want one of *"} {
		if _, err := s.With(key, "30"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	// A value that is right only with the next one.
	if short, err := s.With("duration", "30m", "quiet", "10m"); err != nil || short.Quiet != Duration(10*time.Minute) {
		t.Errorf("a shorter duration and quiet time: %v", err)
	}
}

func TestBuiltin(t *testing.T) {
	for _, name := range Names() {
		if s, _, err := Builtin(name); err != nil || s.Description == "" || s.Name != name {
			t.Errorf("%s: %v, %+v", name, err, s)
		}
	}
	if _, _, err := Open("no-such-scenario"); err == nil || !strings.Contains(err.Error(), "small") {
		t.Errorf("got %v, want the names of those that are there", err)
	}
}

// A recording is a valid scenario with the values that were seen.
func TestRecord(t *testing.T) {
	const now = 1_800_000_000
	r := NewRecording(now)
	r.Relay(Observed{Bootstrap: true, Negentropy: true}, 0)
	for range 3 {
		r.Relay(Observed{Subscriptions: 20, Limit: 500}, 6)
	}
	r.Relay(Observed{Dead: true}, 2)
	var key host.PubKey
	for i := range 10 {
		d := string(rune('a' + i))
		r.Event(&host.Event{PubKey: key, Kind: 30617, CreatedAt: now - 1e7, Tags: host.Tags{{"d", d}, {"relays", "wss://us", "wss://x", "wss://y"}}})
		for n := range 100 / (i + 1) {
			r.Event(&host.Event{Kind: 1621, CreatedAt: now - int64(n)*24*3600, Content: strings.Repeat("x", 10*n), Tags: host.Tags{{"a", "30617:" + key.String() + ":" + d}}})
			r.Event(&host.Event{Kind: 1111, CreatedAt: now - 1e6, Content: "secret name", Tags: host.Tags{}})
		}
	}
	text := r.Text()
	s, err := Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	p := s.Repositories
	if len(s.Relays) != 3 || s.Relays["class-0"].Weight != 0 || s.Relays["class-1"].Weight != 1.5 || s.Relays["class-1"].Count != 3 || s.Profile("class-1").Limits.Subscriptions != 20 || s.Profile("class-1").Negentropy.Supported {
		t.Errorf("relays: %+v", s.Relays)
	}
	if p.Count != 10 || p.Owners != 1 || p.Roots != 291 || p.Comments != 1 || p.RelaysMax != 2 || p.Zipf < 0.9 || p.Zipf > 1.1 {
		t.Errorf("repositories: %+v", p)
	}
	if s.Publishers.Comments < 9 || s.Publishers.Comments > 10 || bytes.Contains(text, []byte("wss")) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("publishers: %+v\n%s", s.Publishers, text)
	}
}
